"""Finds the strings of a GGUF string array, each a 64-bit length and its bytes, without a step of Python for each.

A string's place depends on all lengths before it.  But most lengths are below 256, so that a length field is a byte
and seven zeros, and text seldom holds zeros: numpy finds all such fields of a window at once, and takes those that
follow from each other by their lengths, which proves them.  Elsewhere single steps lead on.  So any array is read
right, and in linear time."""

import struct

import numpy as np

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import Cursor

_WINDOW = 1 << 16  # bytes looked at together
_STEPS = 256  # single steps that cost about as much as a window
_U64 = struct.Struct("<Q")


def string_fields(cursor: Cursor, count: int, what: str) -> np.ndarray:
    """int64 [count + 1]: where the length field of each string is, and where the last string ends.

    Moves `cursor` from the first field to that end.  `count` must be bounded by the bytes that are left.
    FormatError if the strings go beyond the end of the file."""
    fields = np.empty(count + 1, np.int64)
    fields[0] = cursor.position
    done, steps = 0, _STEPS
    while done < count:
        ends: np.ndarray | list[int] = _chained_ends(cursor)[: count - done] if count - done > _STEPS else []
        if len(ends) < _STEPS:
            ends = _walked_ends(cursor, min(steps, count - done), what)
            steps = min(2 * steps, _WINDOW)  # so that few windows are looked at in vain
        cursor.skip(int(ends[-1]) - cursor.position, what)
        fields[done + 1 : done + 1 + len(ends)] = ends
        done += len(ends)
    return fields


def _chained_ends(cursor: Cursor) -> np.ndarray:
    """int64 [n]: ends of the next strings of a window, as far as each has a field of a byte and seven zeros."""
    window = np.asarray(cursor.view[cursor.position : cursor.position + _WINDOW])
    zero = window == 0
    zeros_2 = zero[:-1] & zero[1:]
    zeros_4 = zeros_2[:-2] & zeros_2[2:]
    fields = np.flatnonzero(zeros_4[1:-3] & zeros_4[4:])  # bytes i + 1 .. i + 7 are zero
    ends: np.ndarray = fields + 8 + window[fields]
    unproved = np.flatnonzero(fields != np.concatenate([[0], ends[:-1]])[: len(fields)])
    return cursor.position + ends[: unproved[0] if len(unproved) else None]


def _walked_ends(cursor: Cursor, count: int, what: str) -> list[int]:
    """Ends of the next `count` strings, one by one; the last may be beyond the end of the file."""
    ends = []
    end, last, view, unpack = cursor.position, cursor.size - 8, cursor.view, _U64.unpack_from
    for _ in range(count):
        if end > last:
            raise FormatError(f"truncated: the file ends inside {what}")
        end += 8 + unpack(view, end)[0]
        ends.append(end)
    return ends
