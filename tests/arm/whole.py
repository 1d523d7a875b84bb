"""What test_arm.py takes a sample of, as a whole, an hour or more; run by `pytest tests/arm/whole.py` alone."""

import pytest

from tests.arm.conftest import CORES, Job
from tests.arm.test_arm import KERNELS

MODELS = ("tests/test_cpu.py", "-k", "not every_other_tier")  # that starts a process, which takes the host's binfmt


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("job", [Job(KERNELS, 1500), Job(MODELS, 150)], ids=["kernels", "models"])
def test_results(results, core, job):
    job.check(results[core, job].result())
