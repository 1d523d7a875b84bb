"""An emulated ARM machine as fixtures, and tests of the project that run on it.

Needs a guest made by guest.sh, in the folder that EDGEINFER_TEST_ARM names.  Emulation shows wrong results,
instructions that a core does not have and pages of another size; neither speed nor what a weak order of memory can do.
"""

import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORES = {"cortex-a72": "neon", "cortex-a76": "dotprod", "max": "i8mm"}  # a Raspberry Pi 4, a Pi 5, all that qemu knows
PAGES = {"cortex-a76": {"QEMU_PAGESIZE": "16384"}}  # as a Pi 5 has them
# Built by this host, which takes a tenth of the guest's time; the guest builds what its tests need beyond it, which is
# attention with several extras at once, or with some and another type of KV than f32.
BUILD = """
import pathlib, sys
from edgeinfer.simd_kernels import cpu, kernels, pack
common = [name for name in kernels.table() if not name.startswith("attend.") or name.count(".") <= 1 + (".f32" in name)]
pack.Pack(cpu.tier(sys.argv[1]), pathlib.Path(sys.argv[2], "kernels")).objects(common)
"""


@dataclass(frozen=True)
class Job:
    """Tests that run in one process of the guest: arguments of pytest ({tier} stands for the core's), and how many
    there are at least."""

    args: tuple[str, ...]
    least: int

    def check(self, process: subprocess.CompletedProcess[str]) -> None:
        assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-2000:]
        passed = re.search(r"(\d+) passed", process.stdout)
        assert passed and int(passed[1]) >= self.least


@pytest.fixture(scope="session")
def python():
    """The guest's Python."""
    folder = os.environ.get("EDGEINFER_TEST_ARM")
    if not folder:
        pytest.skip("needs an emulated ARM machine: EDGEINFER_TEST_ARM is to name a folder made by tests/arm/guest.sh")
    return pathlib.Path(folder) / "python"


@pytest.fixture(scope="session")
def run(python):
    """A function that runs the guest's Python on a core; gives the finished process, its output as text."""

    def start(core, *args, **variables):
        machine = {"QEMU_CPU": core, **PAGES.get(core, {}), "GUEST_PATH": str(ROOT)}
        environment = {**os.environ, **machine, **variables}
        return subprocess.run([python, *args], cwd=ROOT, env=environment, capture_output=True, text=True)

    return start


@pytest.fixture(scope="session")
def results(request, run, home):
    """(core, job) -> its process, in future; those of all tests selected begin here, one for each of this host's
    cores at a time."""

    def build(core):
        subprocess.run([sys.executable, "-c", BUILD, CORES[core], home], check=True, capture_output=True)

    def start(core, job, kernels):
        kernels.result()
        args = (arg.format(tier=CORES[core]) for arg in job.args)
        options = ("-v", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
        return run(core, "-m", "pytest", *options, *args, EDGEINFER_TEST_HOME=str(home), EDGEINFER_ISA=CORES[core])

    selected = [item.callspec.params for item in request.session.items if "results" in item.fixturenames]
    jobs = dict.fromkeys((params["core"], params["job"]) for params in selected)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = {core: pool.submit(build, core) for core, _ in jobs}
        started: dict[tuple[str, Job], Future] = {job: pool.submit(start, *job, kernels[job[0]]) for job in jobs}
        yield started
