"""The kernel pack on disk: built once, found again, whole or not at all, and dispensable."""

import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from edgeinfer.errors import BackendError
from edgeinfer.simd_kernels import building, cpu, pack

PORTABLE = cpu.tier("portable")
NAMES = ["add", "outputs"]
BUILDERS = {f"edgeinfer.simd_kernels.{name}" for name in ("building", "compile", "kernels", "emit", "rows", "quants")}
SCRIPT = """
import json, pathlib, sys, warnings
from edgeinfer.simd_kernels import cpu, pack
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    addresses = pack.load(sys.argv[2:], cpu.tier("portable"), pathlib.Path(sys.argv[1]))
modules = [name for name in sys.modules if name.startswith(("edgeinfer", "numba"))]
print(json.dumps({"found": sorted(addresses), "modules": modules, "warnings": [str(w.message) for w in caught]}))
"""


def start(folder, *names):
    """A process that loads kernels from the folder."""
    command = [sys.executable, "-c", SCRIPT, str(folder), *(names or NAMES)]
    elsewhere = tempfile.gettempdir()  # in the project's root `edgeinfer` is a folder without its sub-packages
    return subprocess.Popen(command, cwd=elsewhere, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """(what it reports, what it said on stderr)"""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out), err


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_first_start_builds_and_says_so_the_next_one_only_links(tmp_path):
    report, said = finish(start(tmp_path))
    assert report["found"] == NAMES and BUILDERS & set(report["modules"])
    assert "building 2 kernels for portable (first use on this machine) ..." in said and said.count("\n") == 1
    assert files(tmp_path) == ["add.o", "outputs.o"]

    report, said = finish(start(tmp_path))
    assert report == {"found": NAMES, "modules": report["modules"], "warnings": []} and said == ""
    assert not {name for name in report["modules"] if name in BUILDERS or name.startswith("numba")}


def test_only_what_is_missing_is_built(tmp_path):
    finish(start(tmp_path, "add"))
    (path,) = tmp_path.rglob("add.o")
    before = path.stat()
    report, said = finish(start(tmp_path))
    assert "building 1 kernels" in said and report["found"] == NAMES
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.fixture(scope="module")
def built():
    """Object code of one small kernel."""
    return dict(building.build(["add"], PORTABLE))["add"]


@pytest.fixture
def kept(tmp_path, built, monkeypatch):
    """A pack that holds it; building is noted in `.built` and gives the same code."""
    it = pack.Pack(PORTABLE, tmp_path)
    it.keep("add", built)
    it.built = []
    monkeypatch.setattr(
        building, "build", lambda names, tier: it.built.append(names) or [(name, built) for name in names]
    )
    return it


def spoil(data):
    half = len(data) // 2
    return {
        "whole": data,
        "empty": b"",
        "cut short": data[:half],
        "without its last byte": data[:-1],
        "with one more byte": data + b"\0",
        "a flipped bit": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :],
        "zeros": bytes(len(data)),
        "only a hash": data[-32:],
    }


@pytest.mark.parametrize("how", spoil(b"12"))
def test_a_spoilt_file_is_built_again(kept, built, how):
    path = kept.folder / "add.o"
    path.write_bytes(spoil(path.read_bytes())[how])
    assert kept.objects(["add"]) == {"add": built}
    assert kept.built == ([] if how == "whole" else [["add"]])
    assert kept.objects(["add"]) == {"add": built} and len(kept.built) <= 1  # and kept again


def test_an_empty_file_with_its_true_hash_is_no_code(kept, built):
    (kept.folder / "add.o").write_bytes(hashlib.sha256(b"").digest())
    assert kept.objects(["add"]) == {"add": built} and kept.built


def test_what_a_package_brings_along_is_taken(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "SHIPPED", tmp_path)
    other = pack.Pack(PORTABLE, tmp_path / "home")
    assert other.objects(["add"]) and not kept.built and not (tmp_path / "home").exists()


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    report, _ = finish(start(tmp_path / "file" / "kernels"))
    assert report["found"] == NAMES and len(report["warnings"]) == 1
    assert "compiled kernels cannot be kept in" in report["warnings"][0] and "EDGEINFER_HOME" in report["warnings"][0]


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(kept, built):
    (kept.folder / "add.o").unlink()
    (kept.folder / "add.o").mkdir()
    with pytest.warns(UserWarning, match="compiled kernels cannot be kept in .*; they are built anew at every start"):
        assert kept.objects(["add"]) == {"add": built}
    assert [path.name for path in kept.folder.iterdir()] == ["add.o"]


def test_processes_that_start_together_all_succeed(tmp_path):
    reports = [finish(process)[0] for process in [start(tmp_path / "new") for _ in range(3)]]
    assert all(report["found"] == NAMES and not report["warnings"] for report in reports)
    assert files(tmp_path) == ["add.o", "outputs.o"]
    assert finish(start(tmp_path / "new"))[1] == ""


def test_what_was_built_before_an_interrupt_stays(kept, built, monkeypatch):
    def build(names, tier):
        yield from ((name, built) for name in names[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "build", build)
    with pytest.raises(KeyboardInterrupt):
        kept.objects(["more", "most", "never"])
    assert files(kept.folder) == ["add.o", "more.o", "most.o"]


def test_an_interrupt_while_a_file_is_written_leaves_nothing_behind(kept, built, monkeypatch):
    def interrupted(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.keep("more", built)
    assert files(kept.folder) == ["add.o"]


def test_another_source_is_another_folder(tmp_path, monkeypatch):
    sources = tmp_path / "simd_kernels"
    shutil.copytree(pathlib.Path(pack.__file__).parent, sources, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(pack, "__file__", str(sources / "pack.py"))
    name = pack.sources_hash.__wrapped__
    seen = {name(PORTABLE)}
    assert name(PORTABLE) in seen and name(cpu.tier("avx2")) not in seen
    for path in (sources / "emit.py", sources / "quants" / "legacy.py", sources / "layout.py"):
        path.write_text(path.read_text() + "\n")
        assert name(PORTABLE) not in seen
        seen.add(name(PORTABLE))
    (sources / "quants" / "new.py").write_text("")
    assert name(PORTABLE) not in seen


def test_loaded_kernels_are_the_same_for_all_callers(tmp_path):
    """One thread after the other, and a second load of more names."""
    first = pack.load(["add"], PORTABLE, tmp_path)
    more = pack.load(["add", "outputs"], PORTABLE, tmp_path)
    assert more["add"] == first["add"] != more["outputs"]
    assert isinstance(ctypes.CFUNCTYPE(None)(more["add"]), ctypes._CFuncPtr)


def test_an_unknown_kernel_is_our_own_fault(tmp_path):
    with pytest.raises(KeyError, match="no.such"):
        pack.load(["no.such"], PORTABLE, tmp_path)


def test_packs_of_other_sources_go_when_they_were_not_used_for_a_month(kept, built):
    def other(name, days):
        (kept.folder.parent / name).mkdir()
        (kept.folder.parent / name / "add.o").write_bytes(b"old")
        os.utime(kept.folder.parent / name, (0, time.time() - 86_400 * days))

    other("portable-0123456789abcdef", 31)
    for name, days in (("portable-fedcba9876543210", 29), ("avx2-0123456789abcdef", 99), ("portable-mine", 99)):
        other(name, days)
    os.utime(kept.folder, (0, 0))
    kept.objects(["add"])  # nothing is built: nothing is looked through
    assert time.time() - kept.folder.stat().st_mtime < 3600 and len(list(kept.folder.parent.iterdir())) == 5
    kept.objects(["more"])
    left = {path.name for path in kept.folder.parent.iterdir()}
    assert left == {kept.folder.name, "portable-fedcba9876543210", "avx2-0123456789abcdef", "portable-mine"}


def test_object_code_without_its_kernel_is_an_error_and_no_jump_to_nowhere(built):
    with pytest.raises(BackendError, match="kernel outputs does not hold it"):
        pack.Linked(PORTABLE).link({"outputs": built})
