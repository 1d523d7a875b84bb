"""Split GGUF models: where the shards are, which are missing, and shards that somebody joined byte by byte.

Source: https://github.com/ggml-org/llama.cpp/tree/master/tools/gguf-split."""

import os
import re

from edgeinfer.errors import FormatError
from edgeinfer.formats.magic import MAGIC

_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_NAMED = 3  # missing shards named in an error


def shard_paths(path: str, count: int) -> list[str]:
    """The paths of all `count` shards in order, `path` among them.  FormatError naming those that are not there."""
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(name)
    if not match or int(match["count"]) != count:
        raise FormatError(
            f"one of the {count} shards of a split model, but its name does not end in -NNNNN-of-{count:05d}.gguf, "
            "so the others cannot be found"
        )
    names = [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    missing = [name for name in names if not os.path.exists(os.path.join(folder, name))]
    if missing:
        named = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        raise FormatError(f"one of the {count} shards of a split model; not beside it: {named}")
    return [os.path.join(folder, name) for name in names]


def check_end(count: int, after: bytes) -> None:
    """FormatError if a file that says it is one of `count` shards is several of them joined.

    `after` is what follows the last tensor: another shard's magic, if shards were joined with `cat`."""
    if after.startswith(MAGIC):
        raise FormatError(f"concatenated shards of a split model: its {count} files must be merged by a tool for GGUF")
