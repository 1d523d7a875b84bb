"""Fixtures every test may use."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The conformance data beside the project's root; tests that need it are skipped where it is not."""
    folder = pathlib.Path(__file__).resolve().parent.parent.parent / "shared"
    if not (folder / "kit").is_dir():
        pytest.skip("needs the conformance kit in ../shared, which is not part of the project")
    return folder


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> pathlib.Path:
    """A folder for EDGEINFER_HOME, so that kernels are built once for all tests and none are left with the user.

    EDGEINFER_TEST_HOME names one where kernels have been built already (tests/arm)."""
    made = os.environ.get("EDGEINFER_TEST_HOME")
    return pathlib.Path(made) if made else tmp_path_factory.mktemp("home")
