"""The kernel pack: object code of kernels, built once for a tier, kept on disk and linked when first needed.

The folder's name is a hash of all kernel sources, the format of object files and the tier, so that stale code cannot
be served and one pack fits every machine of its tier, whoever built it.  A package can bring packs along (`edgeinfer
kernels build`).  Files are written under another name and renamed, so that processes that start together do no harm
to each other; where the folder cannot be used, kernels are built for this process alone, with a warning.  A pack of
other sources goes when nothing has been loaded from it for a month.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache

import llvmlite.binding as llvm

from edgeinfer.errors import BackendError
from edgeinfer.formats import grids
from edgeinfer.simd_kernels.cpu import Tier, object_format

UNUSED = 30 * 86_400  # seconds after which a pack of other sources goes
SHIPPED = pathlib.Path(__file__).parent / "packs"  # what came with the package, if anything did

_lock = threading.Lock()
_linked: dict[str, Linked] = {}  # by tier


class Linked:
    """Kernels of one tier in this process; they stay for its life."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.addresses: dict[str, int] = {}
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._machine)

    def link(self, objects: dict[str, bytes]) -> None:
        for code in objects.values():
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        for name in objects:
            address = self._engine.get_function_address(name)
            if not address:  # to call it would be a jump to nowhere
                raise BackendError(f"the object code of kernel {name} does not hold it: delete the folder of kernels")
            self.addresses[name] = address


def load(names: Iterable[str], tier: Tier, folder: pathlib.Path) -> dict[str, int]:
    """Addresses of these kernels, built where the packs in `folder` do not have them yet."""
    with _lock:
        if tier.name not in _linked:
            _linked[tier.name] = Linked(tier)
        linked = _linked[tier.name]
        wanted = sorted(set(names) - set(linked.addresses))
        if wanted:
            linked.link(Pack(tier, folder).objects(wanted))
        return dict(linked.addresses)


def build_all(tier: Tier, folder: pathlib.Path) -> pathlib.Path:
    """Have every kernel of a tier in its pack in `folder`; the pack's own folder.  BackendError if it cannot be
    written."""
    from edgeinfer.simd_kernels import building
    from edgeinfer.simd_kernels.kernels import table

    pack = Pack(tier, folder)
    try:
        pack.folder.mkdir(parents=True, exist_ok=True)
        missing = [name for name in table() if not pack.kept(name)]
        if missing:
            with announced(len(missing), tier):
                for name, code in building.build(missing, tier):
                    pack.keep(name, code)
    except OSError as error:
        raise BackendError(f"kernels cannot be written to {pack.folder}: {error.strerror}") from error
    return pack.folder


class Pack:
    """The folder of one tier's object code."""

    def __init__(self, tier: Tier, folder: pathlib.Path) -> None:
        self.tier = tier
        self.folder = folder / f"{tier.name}-{sources_hash(tier)}"

    def objects(self, names: list[str]) -> dict[str, bytes]:
        """Object code by name; what is missing is built, and kept if the folder can be written."""
        with contextlib.suppress(OSError):
            os.utime(self.folder)  # tells when it was last used
        found = {name: code for name in names if (code := self.kept(name) or self.shipped(name))}
        missing = [name for name in names if name not in found]
        if missing:
            from edgeinfer.simd_kernels import building

            fault: OSError | None = None
            with announced(len(missing), self.tier, " (first use on this machine)"):
                for name, code in building.build(missing, self.tier):
                    found[name] = code
                    try:
                        if not fault:
                            self.keep(name, code)
                    except OSError as error:
                        fault = error
            if fault:
                warnings.warn(
                    f"compiled kernels cannot be kept in {self.folder} ({fault.strerror}); they are built anew at "
                    "every start (EDGEINFER_HOME names another folder)",
                    stacklevel=2,
                )
            self._remove_unused()
        return found

    def kept(self, name: str) -> bytes:
        """The code in the folder, or nothing."""
        return read_whole(self.folder / f"{name}.o")

    def shipped(self, name: str) -> bytes:
        """The code that came with the package, or nothing."""
        return read_whole(SHIPPED / self.folder.name / f"{name}.o")

    def keep(self, name: str, code: bytes) -> None:
        """Write the object code of a kernel.  OSError where that fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / f"{name}.o", code + hashlib.sha256(code).digest())

    def _remove_unused(self) -> None:
        """Delete packs of this tier that were not used for long.  Should a process use one just then, it builds anew
        what it misses."""
        with contextlib.suppress(OSError):
            for other in self.folder.parent.glob(f"{self.tier.name}-" + "[0-9a-f]" * 16):
                if other != self.folder and time.time() - other.stat().st_mtime > UNUSED:
                    shutil.rmtree(other)


def read_whole(path: pathlib.Path) -> bytes:
    """What `keep` wrote, or nothing where it is not there or was cut short; the file's last 32 bytes are the hash of
    the rest."""
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data[:-32]).digest() == data[-32:]:
            return data[:-32]
    return b""


def write_whole(path: pathlib.Path, data: bytes) -> None:
    """Have the file appear with all of its bytes, or not at all."""
    handle, partial = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


@contextlib.contextmanager
def announced(count: int, tier: Tier, why: str = "") -> Iterator[None]:
    """Say on stderr what takes a while."""
    start = time.perf_counter()
    print(
        f"edgeinfer: building {count} kernels for {tier.name}{why} ...",
        end="",
        file=sys.stderr,
        flush=True,
    )
    try:
        yield
    finally:
        print(f" {time.perf_counter() - start:.1f} s", file=sys.stderr)


@lru_cache(maxsize=8)
def sources_hash(tier: Tier) -> str:
    """Of everything the object code depends on, but for LLVM: what one version built runs on under the next."""
    here = pathlib.Path(__file__).parent
    digest = hashlib.sha256(repr((tier, object_format(tier), sys.byteorder)).encode())
    for path in sorted([*here.glob("*.py"), *here.glob("quants/*.py"), pathlib.Path(grids.__file__)]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
