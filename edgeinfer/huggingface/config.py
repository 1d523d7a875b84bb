"""The numbers in config.json, checked as they are read; the same number goes by several names."""

import dataclasses
import math
from typing import Any

from edgeinfer.config import MAX_WIDTH
from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import shown

_MISSING: Any = object()


@dataclasses.dataclass(frozen=True)
class Config:
    """Each reader takes the first of `names` that is there and not null; without a default one must be.

    FormatError naming the key and what it holds."""

    values: dict[str, Any]
    where: str = "config.json"

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(name) is not None

    def get(self, *names: str, default: Any = _MISSING) -> Any:
        """The value as it is."""
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        if default is _MISSING:
            raise FormatError(f"{self.where} has no {' or '.join(names)}")
        return default

    def integer(self, *names: str, default: int = _MISSING, least: int = 0, most: int = MAX_WIDTH) -> int:
        value = self.get(*names, default=default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(names, value, f"an integer in {least}..{most}")
        return value

    def number(self, *names: str, default: float = _MISSING) -> float:
        value = self.get(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
            raise self._wrong(names, value, "a finite number")
        return float(value)

    def flag(self, *names: str, default: bool = _MISSING) -> bool:
        value = self.get(*names, default=default)
        if not isinstance(value, bool):
            raise self._wrong(names, value, "true or false")
        return value

    def text(self, *names: str, default: str = _MISSING) -> str:
        value = self.get(*names, default=default)
        if not isinstance(value, str):
            raise self._wrong(names, value, "a string")
        return value

    def part(self, *names: str) -> "Config":
        """The object under a key; an empty one where there is none."""
        value = self.get(*names, default={})
        if not isinstance(value, dict):
            raise self._wrong(names, value, "an object")
        return Config(value, f"{self.where}: {names[0]}")

    def numbers(self, *names: str, count: int, default: list[float] = _MISSING) -> list[float]:
        """So many finite numbers."""
        value = self._list(names, count, default)
        if not all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < math.inf for x in value):
            raise self._wrong(names, value, "a list of finite numbers")
        return [float(x) for x in value]

    def texts(self, *names: str, count: int, default: list[str] = _MISSING) -> list[str]:
        """So many strings."""
        value = self._list(names, count, default)
        if not all(isinstance(x, str) for x in value):
            raise self._wrong(names, value, "a list of strings")
        return value

    def _list(self, names: tuple[str, ...], count: int, default: Any) -> list[Any]:
        value = self.get(*names, default=default)
        if not isinstance(value, list) or len(value) != count:
            raise self._wrong(names, value, f"a list of {count} values")
        return value

    def _wrong(self, names: tuple[str, ...], value: Any, wanted: str) -> FormatError:
        name = next((name for name in names if self.values.get(name) is not None), names[0])
        return FormatError(f"{self.where}: {name} is {shown(str(value))}, {wanted} wanted")
