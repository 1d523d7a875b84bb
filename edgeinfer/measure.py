"""What this machine can do, measured: bytes read (decode's limit) and 8-bit products a second (prefill's)."""

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np

from edgeinfer.models import catalog
from edgeinfer.simd_kernels import cpu, pack
from edgeinfer.simd_kernels.layout import aligned, dots

BUFFER = 256 << 20  # bytes read where no file is given: more than caches hold
READ_GRAIN = 2048  # bytes the reading kernel takes at a time
DOT_TURNS = 100_000
SECONDS = 0.3  # a measurement takes about this long


def read_bandwidth(threads: int, data: np.ndarray | None = None) -> float:
    """Bytes a second at which `threads` threads read `data` uint8[bytes] (a mapped file's, or a buffer's), each its
    own part."""
    data = aligned(BUFFER) if data is None else data
    if not data.flags.writeable:
        data.max()  # pages of a file are mapped when first touched
    else:
        data[:] = 1
    share = len(data) // threads // READ_GRAIN * READ_GRAIN
    read = _kernel("probe.read", 3)
    outs = aligned(128 * threads)

    def part(number: int) -> None:
        read(data.ctypes.data + number * share, share, outs.ctypes.data + 128 * number)

    return share * threads / _best(part, threads)


def dot_peak(threads: int) -> float:
    """Products of 8-bit numbers a second, all from registers."""
    kernel, lanes = _kernel("probe.dots", 2), cpu.host().tier.lanes
    outs = aligned(128 * threads)

    def part(number: int) -> None:
        kernel(DOT_TURNS, outs.ctypes.data + 128 * number)

    return DOT_TURNS * dots(lanes) * 4 * lanes * threads / _best(part, threads)


def _kernel(name: str, arguments: int) -> Callable[..., None]:
    address = pack.load([name], cpu.host().tier, catalog.home() / "kernels")[name]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)(address)


def _best(part: Callable[[int], None], threads: int) -> float:
    """Shortest time in seconds in which part(0) .. part(threads - 1) run side by side."""
    best, deadline = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < deadline:
        others = [threading.Thread(target=part, args=(number,)) for number in range(1, threads)]
        start = time.perf_counter()
        for other in others:
            other.start()
        part(0)
        for other in others:
            other.join()
        best = min(best, time.perf_counter() - start)
    return best
