"""Whole numbers in memory that Python and kernels share.

Every step of a model drives code out of the caches, so what is done between two steps is done by little of it:
memoryviews in place of numpy.
"""

from collections.abc import Sequence

from edgeinfer.simd_kernels.layout import aligned


class Numbers:
    """i64[count], zero at first, at `address`, on cache lines of its own."""

    def __init__(self, count: int) -> None:
        memory = aligned(8 * count)
        self.address: int = memory.ctypes.data
        self.values = memory.data.cast("q")
        self._zeros = memoryview(bytes(8 * count)).cast("q")

    def put(self, place: int, numbers: Sequence[int]) -> None:
        """Write these from `place` on."""
        for i, number in enumerate(numbers):
            self.values[place + i] = number

    def clear(self) -> None:
        self.values[:] = self._zeros
