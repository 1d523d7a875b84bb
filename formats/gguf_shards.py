"""Split GGUF models: their shards are recognised, named and refused; a model is read from one file only."""

import os
import re

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.magic import MAGIC

_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_NAMED = 3  # missing shards named in an error


def check_single(path: str, count: int, after: bytes) -> None:
    """UnsupportedError if the file at `path` is one of `count` > 1 shards, FormatError if it is several of them joined.

    `after` is what follows the last tensor: another shard's magic, if shards were joined with `cat`."""
    if count <= 1:
        return
    if after.startswith(MAGIC):
        raise FormatError(f"concatenated shards of a split model: its {count} files must be merged by a tool for GGUF")
    text = f"one of the {count} shards of a split model; split files are not supported yet"
    missing = _missing(path, count)
    if missing:
        names = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        text += f"; not beside it: {names}"
    raise UnsupportedError(text)


def _missing(path: str, count: int) -> list[str]:
    """The names of the sibling shards that are not there; none if the file's own name is not that of a shard."""
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(name)
    if not match or int(match["count"]) != count:
        return []
    siblings = [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    return [sibling for sibling in siblings if not os.path.exists(os.path.join(folder, sibling))]
