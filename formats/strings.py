"""Many byte strings without an object for each: a quarter million would take 20 MB and longer than all else at a start.

They lie as in a GGUF file, behind each other, with eight bytes before each that nobody looks at."""

import functools
from collections.abc import Iterable, Iterator

import numpy as np

GAP = 8  # bytes before each string
_SLACK = 8  # bytes behind the last, so that as many may be read from any place
_WORD = 4  # bytes of a string's beginning and of its end that its key is made of
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint32)
_KEY_BITS = 18
_MANY = 8  # once so many-th of the strings were asked for, a dict of all is worth its time
_HEAD_FACTOR, _LENGTH_FACTOR, _KEY_FACTOR = map(np.uint32, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D))  # odd, else any


class Strings:
    """Byte strings by their places, from 0 on."""

    def __init__(self, raw: np.ndarray, fields: np.ndarray) -> None:
        """raw: uint8, copied.  fields: int[count + 1], where in it the gap before each begins, and the last's end."""
        self._raw = b"".join((raw.data, bytes(_SLACK)))
        self._fields = fields.astype(np.int32 if len(self._raw) < 1 << 31 else np.int64)
        self._bounds = self._fields.data  # gives Python's own numbers
        self._asked = 0

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> "Strings":
        parts = [bytes(GAP) + string for string in strings]
        fields = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(parts), np.uint8), fields)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, place: int) -> bytes:
        return self._raw[self._bounds[place] + GAP : self._bounds[place + 1]]

    def __iter__(self) -> Iterator[bytes]:
        strings = self.joined(0).tobytes().split(b"\0")[1:]
        return iter(strings) if len(strings) == len(self) else map(self.__getitem__, range(len(self)))

    @property
    def data(self) -> np.ndarray:
        """uint8: the strings, what is between them, and some bytes more."""
        return np.frombuffer(self._raw, np.uint8)

    @property
    def starts(self) -> np.ndarray:
        """int[count]: where in `data` each begins."""
        return self._fields[:-1] + GAP

    @property
    def ends(self) -> np.ndarray:
        """int[count]: where each ends."""
        return self._fields[1:]

    @property
    def longest(self) -> int:
        """Bytes of the longest string; 0 where there are none."""
        return int((self.ends - self.starts).max(initial=0))

    def joined(self, separator: int) -> np.ndarray:
        """uint8: all strings, a separating byte before each."""
        data = self.data[:-_SLACK].copy()
        gaps = self._fields[:-1]
        data[gaps] = separator
        keep = np.ones(len(data), bool)
        for place in range(1, GAP):
            keep[gaps + place] = False
        return data[keep]

    def find(self, strings: Iterable[bytes]) -> dict[bytes, int]:
        """The last place of each of these strings that is there; without a dict of all, until many were asked for."""
        wanted = frozenset(strings)
        self._asked += len(wanted)
        if self._asked * _MANY > len(self):
            return {string: self._places[string] for string in wanted if string in self._places}
        asked = np.zeros(1 << _KEY_BITS, bool)
        asked[Strings.of(wanted)._keys] = True
        places = np.flatnonzero(asked.take(self._keys)).tolist()
        return {string: place for place in places if (string := self[place]) in wanted}

    @functools.cached_property
    def _places(self) -> dict[bytes, int]:
        return dict(zip(self, range(len(self)), strict=True))

    @functools.cached_property
    def _keys(self) -> np.ndarray:
        """uint32: a hash of each string's length and of its first and last bytes.  In place, as what is read anew takes
        longer than all arithmetic."""
        starts, ends = self.starts, self.ends
        lengths = ends - starts
        masks = _MASKS[np.minimum(lengths, _WORD)]
        words = np.ndarray((len(self._raw) - _WORD + 1,), "<u4", self._raw, strides=(1,))
        keys: np.ndarray = words[starts] & masks
        keys *= _HEAD_FACTOR
        keys += words[np.maximum(starts, ends - _WORD)] & masks
        keys *= _LENGTH_FACTOR
        keys += lengths.astype(np.uint32)
        keys ^= keys >> 15
        keys *= _KEY_FACTOR
        keys >>= 32 - _KEY_BITS
        return keys
