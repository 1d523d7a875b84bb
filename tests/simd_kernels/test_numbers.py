"""Whole numbers that kernels read."""

import ctypes

import pytest

from edgeinfer.simd_kernels.numbers import Numbers


def there(numbers, count):
    """What lies at their address."""
    return list((ctypes.c_int64 * count).from_address(numbers.address))


def test_numbers_lie_at_their_address():
    numbers = Numbers(5)
    assert numbers.address % 64 == 0 and there(numbers, 5) == [0] * 5
    numbers.put(1, (7, -1, 2**63 - 1))
    numbers.put(4, range(9, 10))
    numbers.put(0, ())
    assert there(numbers, 5) == list(numbers.values) == [0, 7, -1, 2**63 - 1, 9]
    numbers.clear()
    assert there(numbers, 5) == [0] * 5


def test_nothing_is_written_past_the_end():
    with pytest.raises(IndexError):
        Numbers(2).put(1, (1, 2))
