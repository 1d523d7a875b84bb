"""Fixtures every test may use."""

import os
import pathlib
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The conformance data beside the project's root; tests that need it are skipped where it is not."""
    folder = pathlib.Path(__file__).resolve().parent.parent.parent / "shared"
    if not (folder / "kit").is_dir():
        pytest.skip("needs the conformance kit in ../shared, which is not part of the project")
    return folder


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory) -> Iterator[pathlib.Path]:
    """EDGEINFER_HOME of all tests, so that kernels are built once for them and nothing is left with the user.

    EDGEINFER_TEST_HOME names a folder where kernels have been built already (tests/arm)."""
    made = os.environ.get("EDGEINFER_TEST_HOME")
    folder = pathlib.Path(made) if made else tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEINFER_HOME", str(folder))
        yield folder
