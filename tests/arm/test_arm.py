"""The ARM tiers on emulated cores: which is chosen, a sample of the kernels' tests, and tiny models.

What the sample leaves out is in whole.py; instructions are read in the assembly by simd_kernels/test_compile.py.
"""

import pytest

from tests.arm.conftest import CORES, ROOT, Job

KIT = ROOT.parent / "shared" / "kit"
SAMPLE = ("-p", "tests.arm.sample")
BEYOND_QEMU = "forked_process"  # it fails an assertion of its own when a fork of a process with threads starts threads
KERNELS = ("tests/simd_kernels", "--ignore=tests/simd_kernels/test_compile.py", "-k", f"{{tier}} and not {BEYOND_QEMU}")
STEPS = ("tests/test_cpu.py", "-k", "several_sequences or number_of_threads or every_kv or pieces")
ARCHITECTURES = ("tests/models/test_kit.py", "-k", "cpu_backend")

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
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(Job((*SAMPLE, *KERNELS), 500), id="kernels"),
        pytest.param(Job((*SAMPLE, *STEPS), 10), id="steps"),
        pytest.param(
            Job(ARCHITECTURES, 100),
            id="architectures",
            marks=pytest.mark.skipif(not KIT.is_dir(), reason="needs the conformance kit in ../shared"),
        ),
    ],
)
def test_results(results, core, job):
    job.check(results[core, job].result())
