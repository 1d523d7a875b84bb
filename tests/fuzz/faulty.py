"""Target of known faults, one for each thing that `judge` and `runner` are to see; see test_fuzz.py."""

from __future__ import annotations

import os
import random
import sys
import warnings

import numpy as np

from edgeinfer.errors import FormatError


def make(rng: random.Random) -> bytes:
    return rng.choice(list(_DOES)).encode()


def run(case: bytes) -> None:
    _DOES[case.decode()]()


def _raise(error: BaseException) -> None:
    raise error


def _recurse() -> None:
    _recurse()


def _spin() -> None:
    while True:
        pass


def _warn() -> None:
    for number in range(20):
        warnings.warn(f"number {number}", stacklevel=2)


def _overflow() -> None:
    np.float32(3e38) * np.float32(3e38)


_DOES = {
    "fine": lambda: None,
    "refuses": lambda: _raise(FormatError("the file is empty")),
    "warns": lambda: warnings.warn("something for the user", stacklevel=2),
    "raises": lambda: _raise(KeyError("x")),
    "exits": lambda: _raise(SystemExit(3)),
    "recurses": _recurse,
    "two lines": lambda: _raise(FormatError("one\ntwo")),
    "says nothing": lambda: _raise(FormatError("")),
    "hides": lambda: _raise(FormatError("cannot: MemoryError")),
    "warns often": _warn,
    "overflows": _overflow,
    "prints": lambda: print("noise", file=sys.stderr),
    "allocates": lambda: np.zeros(400_000_000, np.uint8),
    "touches": lambda: bytes(b"x" * 320_000_000),
    "dies": os.abort,
    "spins": _spin,
}
