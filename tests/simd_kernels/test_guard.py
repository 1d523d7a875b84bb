"""A file cut short beneath kernels: in processes of their own, as the alternative is their end."""

import signal
import subprocess
import sys

import pytest

from edgeinfer.simd_kernels import guard

pytestmark = pytest.mark.skipif(not guard.KERNELS, reason="not known how on this system")

BEGIN = """
import faulthandler, mmap, os, pathlib, signal, sys, threading
import numpy as np
from edgeinfer.errors import FormatError
from edgeinfer.formats.mapped import MAPS, Mapped
from edgeinfer.simd_kernels import cpu, guard, pack

sys.stdout.reconfigure(line_buffering=True)
size = 1 << 20
path = pathlib.Path(sys.argv[1])
path.write_bytes(b"x" * size)
def put_in_place():
    for _ in range(2):
        guard.guard(pack.load(guard.KERNELS, cpu.host().tier, pathlib.Path(sys.argv[2])))
"""


@pytest.fixture
def run(tmp_path, kernel_folder):
    def run(code):
        command = [sys.executable, "-c", BEGIN + code, str(tmp_path / "file"), str(kernel_folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout.split(), done.stderr.replace(pack_notice(done.stderr), "")

    return run


def pack_notice(said):
    """What is said where the kernel was not built yet."""
    return "".join(line for line in said.splitlines(True) if line.startswith("edgeinfer: building"))


def test_pages_behind_the_end_are_zeros_and_the_file_is_no_longer_good(run):
    code = """
faulthandler.enable()  # was there before
put_in_place()
file = Mapped(str(path)); other = Mapped(__import__("numpy").__file__)
data, before = file.view(0, size), other.view(0, other.size).copy()
file.check()
os.truncate(path, 4096)
sums = []
threads = [threading.Thread(target=lambda: sums.append(int(data[4096 * i :].sum()))) for i in range(1, 9)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*sums, MAPS[:, 2].tolist().count(1))
path.write_bytes(b"x" * size)
print(int(data.sum()))
try: file.check()
except FormatError as error: print("changed" in str(error))
other.check()
print((other.view(0, other.size) == before).all())
"""
    assert run(code) == (0, [*"00000000", "1", "0", "True", "True"], "")


def test_a_file_that_cannot_be_read_although_it_is_as_it_was_is_no_longer_good(run):
    code = """
file = Mapped(str(path))
MAPS[MAPS[:, 1] > 0, 2] = 1
try: file.check()
except FormatError as error: print("could not be read" in str(error))
del file
print((MAPS[:, 1] == 0).all())
file = Mapped(str(path))
file.check()
"""
    assert run(code) == (0, ["True", "True"], "")


OTHERS = """
map = mmap.mmap(os.open(path, os.O_RDONLY), size, access=mmap.ACCESS_READ)
os.truncate(path, 4096)
print("reads")
print(map[8192])
"""


@pytest.mark.parametrize("before", ["", "faulthandler.enable()"])
@pytest.mark.parametrize("fault", [OTHERS, "os.kill(os.getpid(), signal.SIGBUS)", "signal.raise_signal(signal.SIGBUS)"])
def test_other_faults_end_the_process_as_before(run, before, fault):
    code, _, said = run(f"{before}\nput_in_place()\nown = Mapped(str(path))\n{fault}\nprint('lived')")
    assert code == -signal.SIGBUS and ("Bus error" in said) == bool(before)


def test_a_handler_of_the_user_gets_what_is_not_ours(run):
    code = """
signal.signal(signal.SIGBUS, lambda *_: print("told"))
put_in_place()
for _ in range(2):
    os.kill(os.getpid(), signal.SIGBUS)
print("lived")
"""
    assert run(code) == (0, ["told", "told", "lived"], "")
