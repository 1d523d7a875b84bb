"""Finds the strings of a GGUF string array, each a 64-bit length and its bytes, without a step of Python for each.

A string's place depends on all lengths before it.  But lengths are mostly below 256, so their fields are a byte and seven zeros,
and text seldom holds zeros: numpy guesses all fields of a window at once, and the guess is kept as far as the lengths found
lead from field to field, which proves it.  Where it breaks, some single steps lead on; so any file is read right, in linear time."""

import struct

import numpy as np

from edgeinfer.formats.cursor import Cursor

_WINDOW = 1 << 16  # bytes guessed at a time
_STEPS = 256  # single steps after a broken guess: about the cost of a window, so that guessing in vain costs twice at most
_U64 = struct.Struct("<Q")


def string_fields(cursor: Cursor, count: int) -> np.ndarray:
    """int64 [count + 1]: where the length field of each string is, and where the last string ends.

    Moves `cursor` from the first field to that end.  `count` must be bounded by the bytes that are left.
    FormatError if the strings go beyond the end of the file."""
    data = np.frombuffer(cursor.buffer, np.uint8)
    fields = np.empty(count + 1, np.int64)
    fields[0] = cursor.position
    done = 0
    while done < count:
        ends = cursor.position + _guess(data[cursor.position : cursor.position + _WINDOW])[: count - done]
        if len(ends):
            fields[done + 1 : done + 1 + len(ends)] = ends
            cursor.skip(int(ends[-1]) - cursor.position, "a string array")
            done += len(ends)
        if len(ends) < _STEPS:
            steps = min(_STEPS, count - done)
            for index in range(done + 1, done + 1 + steps):
                cursor.skip(cursor.u64("a string array"), "a string array")
                fields[index] = cursor.position
            done += steps
    return fields


def _guess(window: np.ndarray) -> np.ndarray:
    """int64 [n]: the ends of the strings that certainly follow each other from the start of `window`, perhaps none."""
    zero = window == 0
    zeros_2 = zero[:-1] & zero[1:]
    zeros_4 = zeros_2[:-2] & zeros_2[2:]
    zeros_7 = zeros_4[1:-3] & zeros_4[4:]  # [i]: bytes i + 1 .. i + 7 are zero
    fields = np.flatnonzero(zeros_7)
    ends = fields + 8 + window[fields]
    if not len(fields) or fields[0] != 0:
        return ends[:0]
    broken = np.flatnonzero(ends[:-1] != fields[1:])
    return ends[: broken[0] + 1] if len(broken) else ends
