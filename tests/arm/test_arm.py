"""The ARM tiers' results on emulated cores: kernels against numpy, and tiny models against the reference backend.

Needs a guest made by guest.sh, in the folder that EDGEINFER_TEST_ARM names.  Emulation shows wrong results,
instructions that a core does not have and pages of another size; neither speed nor what a weak order of memory can do.
"""

import os
import pathlib
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORES = {"cortex-a72": "neon", "cortex-a76": "dotprod", "max": "i8mm"}  # a Raspberry Pi 4, a Pi 5, all that qemu knows
PAGES = {"cortex-a76": {"QEMU_PAGESIZE": "16384"}}  # as a Pi 5 has them
KERNELS = "tests/simd_kernels"
BEYOND_QEMU = "forked_process"  # it fails an assertion of its own when a fork of a process with threads starts threads
MULTIPLY = [f"{KERNELS}/{name}" for name in ("test_emit.py", "test_tile.py", "test_linear.py", "quants")]
MODELS = (
    "test_every_architecture_and_type and not last_code and (llama and (F16 or Q4_0 or Q4_K or Q8_0) or gemma3-Q6_K)"
    " or test_several_sequences or test_the_number_of_threads and Q8_0"
)
# Compiled by the host, which takes a fifth of the guest's time; the guest compiles what the tests need beyond it.
COMPILE = """
import pathlib, sys
from edgeinfer.simd_kernels import cpu, kernels, pack
names = [name for name in kernels.table() if not name.startswith("attend.")]
pack.Pack(cpu.tier(sys.argv[1]), pathlib.Path(sys.argv[2], "kernels")).objects(names)
"""


@pytest.fixture(scope="session")
def python():
    """The guest's Python."""
    folder = os.environ.get("EDGEINFER_TEST_ARM", "")
    if not folder or not (pathlib.Path(folder) / "python").exists():
        pytest.skip("needs an emulated ARM machine: EDGEINFER_TEST_ARM is to name a folder made by tests/arm/guest.sh")
    return pathlib.Path(folder) / "python"


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """A folder with the sources in the places they are installed to."""
    folder = tmp_path_factory.mktemp("package")
    places = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    (folder / "edgeinfer").mkdir()
    for path in (ROOT / "edgeinfer").iterdir():
        (folder / "edgeinfer" / path.name).symlink_to(path)
    for name, place in places.items():
        if name != "edgeinfer":
            (folder / name.replace(".", "/")).symlink_to(ROOT / place)
    return folder


@pytest.fixture(scope="session")
def run(python, package):
    """A function that runs the guest's Python on a core; gives the finished process, its output as text."""

    def start(core, *args, **variables):
        machine = {"QEMU_CPU": core, **PAGES.get(core, {}), "GUEST_PATH": str(package)}
        environment = {**os.environ, **machine, **variables}
        return subprocess.run([python, *args], cwd=ROOT, env=environment, capture_output=True, text=True)

    return start


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def results(run, home):
    """(core, which) -> the tests' process, in future; all begin here, as many at a time as this host has cores."""

    def compile_kernels(tier):
        subprocess.run([sys.executable, "-c", COMPILE, tier, home], check=True, capture_output=True)

    def tests(core, packs, *args):
        packs.result()
        options = ("-v", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
        return run(core, "-m", "pytest", *options, *args, EDGEINFER_TEST_HOME=str(home), EDGEINFER_ISA=CORES[core])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        started: dict[tuple[str, str], Future] = {}
        packs = {core: pool.submit(compile_kernels, tier) for core, tier in CORES.items()}
        for core, tier in CORES.items():
            files = [KERNELS, f"--ignore={KERNELS}/test_compile.py"] if core == "cortex-a76" else MULTIPLY
            which = f"{tier} and not {BEYOND_QEMU}"
            started[core, "kernels"] = pool.submit(tests, core, packs[core], *files, "-k", which)
            started[core, "models"] = pool.submit(tests, core, packs[core], "tests/test_cpu.py", "-k", MODELS)
        yield started


def check(process, least):
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", process.stdout)[1]) >= least


SAY = "from edgeinfer.simd_kernels import cpu; print(cpu.host().tier.name)"


@pytest.mark.parametrize("core, tier", CORES.items())
def test_each_core_gets_its_tier(run, core, tier):
    process = run(core, "-c", SAY, EDGEINFER_ISA="")
    assert (process.stdout, process.stderr) == (f"{tier}\n", "")


@pytest.mark.parametrize(
    "core, cap, reason",
    [("cortex-a72", "dotprod", "the CPU lacks dotprod, lse"), ("cortex-a76", "i8mm", "the CPU lacks i8mm")],
)
def test_a_cap_beyond_the_core_is_an_error_and_no_crash(run, core, cap, reason):
    process = run(core, "-c", SAY, EDGEINFER_ISA=cap)
    assert process.returncode == 1 and process.stderr.splitlines()[-1].endswith(f"EDGEINFER_ISA={cap}: {reason}")


@pytest.mark.parametrize("cap", ["dotprod", "neon", "portable"])
def test_a_cap_below_the_core_is_obeyed(run, cap):
    assert run("max", "-c", SAY, EDGEINFER_ISA=cap).stdout == f"{cap}\n"


@pytest.mark.parametrize("core", CORES)
def test_kernels(results, core):
    """All on one core; on the others those that multiply, for only there does their code differ."""
    check(results[core, "kernels"].result(), 500)


@pytest.mark.parametrize("core", CORES)
def test_tiny_models(results, core):
    check(results[core, "models"].result(), 8)
