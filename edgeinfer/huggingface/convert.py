"""Writes the GGUF file that a folder becomes: the header, then one tensor after the other."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable

from edgeinfer import plan
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.virtual import VirtualFile
from edgeinfer.huggingface import virtual

TYPES = {"f32": GgmlType.F32, "f16": GgmlType.F16, "bf16": GgmlType.BF16}

Progress = Callable[[int, int], None]
"""Called with bytes written and bytes in all."""


def convert(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    kind: str | None = None,
    progress: Progress = lambda done, total: None,
) -> int:
    """Write the folder's model to the file `out`, its matrices as they are, or as `kind`: f32, f16 or bf16.

    Returns the bytes written.  No more than one tensor is in memory at a time.  The file has another name until it is
    whole, and takes the place of one that was there, or that a link there points to; an error or an interrupt leaves
    nothing behind.
    FormatError, UnsupportedError: the folder.  RequestError: an argument, such as a device or a file of the folder's to
    be written to.  BackendError: the disk."""
    if kind is not None and kind not in TYPES:
        raise RequestError(f"type {kind!r}; must be one of {', '.join(TYPES)}, or left out to keep what there is")
    out, target = os.fsdecode(out), os.path.realpath(os.fsdecode(out))  # a link stays one
    place = os.path.dirname(target)
    if not out or os.path.isdir(out) or not os.path.isdir(place):
        raise RequestError(f"{out or 'an empty name'}: must name a file in a folder that is there")
    path = os.fsdecode(folder)
    if os.path.exists(out) and not _may_go(target, path):
        raise RequestError(f"{out}: is no file that could be replaced")
    source = virtual.source(path, None if kind is None else TYPES[kind])
    with gguf.read(path, source) as file:
        plan.trace(file)  # what is written can be run
        free = shutil.disk_usage(place).free
        if file.size > free:
            raise BackendError(f"{out} needs {file.size / 1e6:.1f} MB, and {free / 1e6:.1f} MB of the disk are free")
        partial = f"{target}.{os.getpid()}.part"
        try:
            _write(source, partial, file.size, progress)
            file.check()
            os.replace(partial, target)
        except OSError as error:
            raise BackendError(f"{out} cannot be written: {error.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)
        return file.size


def _may_go(out: str, folder: str) -> bool:
    """Whether what is there may be replaced: a file, and none that the folder's model is read from."""
    same = os.path.isdir(folder) and os.path.samefile(os.path.dirname(out), folder)
    return os.path.isfile(out) and not (same and not out.lower().endswith(".gguf"))


def _write(source: VirtualFile, path: str, size: int, progress: Progress) -> None:
    done = 0
    with open(path, "wb") as file:
        for part in source.parts():
            file.write(part.data)
            done += part.size
            progress(done, size)
