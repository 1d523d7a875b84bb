"""JSON objects that files bring: whatever is wrong with one ends in a FormatError that names it."""

import json
from typing import Any

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import shown


def parse_object(raw: bytes, what: str) -> dict[str, Any]:
    """The object that `raw` spells.  FormatError, naming `what`, if it is no JSON, no object, too deep, or has a key
    twice in one object."""
    value = parse(raw, what)
    if not isinstance(value, dict):
        raise FormatError(f"{what} is no JSON object")
    return value


def parse(raw: bytes, what: str) -> Any:
    """Whatever `raw` spells.  FormatError as above."""
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError:
        raise FormatError(f"{what} is nested too deeply") from None
    except ValueError as error:  # also of bytes that are not UTF-8, and of numbers with too many digits
        raise FormatError(f"{what} is no JSON: {' '.join(str(error).split())[:200]}") from None
    except _TwiceError as error:
        raise FormatError(f"{what} has the key {shown(str(error))} twice") from None


class _TwiceError(Exception):
    """A key occurs twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _TwiceError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found
