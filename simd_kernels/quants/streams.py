"""How rows of weights are read at the speed of the memory: several side by side."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.values import I64, Value

# Rows are read side by side, STREAMS at a time and some hundred bytes of each in turn, from equal parts of the matrix:
# a core's prefetchers follow each 4 kB page on their own and start anew in the next one, so that a single stream gets
# three quarters of what the memory gives to eight.  What the prefetchers miss, the first bytes of the next page, is
# asked for AHEAD bytes before.
STREAMS, FEW_STREAMS = 8, 2  # the few where more were not measured
AHEAD = 512


def streams(e: Emitter) -> int:
    """Rows read side by side."""
    return STREAMS if e.tier.machine == "x86_64" else FEW_STREAMS


@contextmanager
def side_by_side(
    e: Emitter, w: Value, row_bytes: Value, rows: Value, count: int = 0
) -> Iterator[tuple[Value, Value, Value]]:
    """A loop over `rows` rows of weights at `w`, `count` or `streams` at a time: (first row, rows from one to the next,
    how many).  The last turn takes the rows that are left, neighbours."""
    n = count or streams(e)
    turns = rows / n
    with e.when(turns > 1), e.loop(0, n) as stream:  # what is asked for ahead does not reach the beginnings
        for line in range(0, AHEAD, 64):
            e.prefetch(w + stream * turns * row_bytes + line)
    with e.loop(0, (rows + (n - 1)) / n) as turn:
        whole = turn < turns
        taken = e.select(whole, e.const(I64, n), rows - turns * n)
        yield e.select(whole, turn, turns * n), e.select(whole, turns, 1), taken


def prefetch(e: Emitter, places: list[Value], size: int) -> None:
    """Ask for so many bytes of rows that are read at these places."""
    for place in places:
        for line in range(0, size, 64):
            e.prefetch(place + (AHEAD + line))
