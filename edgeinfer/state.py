"""What recurrent ops keep of a sequence: states of fixed size, and earlier ones to roll back to.

The states of all ops of a sequence lie behind each other in one slot.  States that have gone on cannot be taken back,
so every step of several tokens leaves a copy of them as they were before its last token: from there a request goes on
that begins with the same text, be it longer or once more the same.  The last few copies are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgeinfer.op import Op
from edgeinfer.simd_kernels.layout import aligned, state_bytes

COPIES = 2  # of each sequence


def shape(op: Op) -> tuple[int, int]:
    """(units, depth) of an op's state, (0, 0) where it has none.

    A unit is a part of the output's columns whose columns are computed alike: a head, or all columns that share their
    other inputs.  Each column has `depth` numbers of state.
    """
    width, attrs = op.out.width, op.attrs
    if op.kind == "shift":
        return 1, 1
    if op.kind == "conv":
        return 1, max(attrs["kernel"] - 1, 1)
    if op.kind == "condense":
        return 1, 3
    if op.kind == "overlap":
        return 1, 9
    if op.kind == "ssm":
        return attrs["groups" if attrs["heads"] == width else "heads"], attrs["state"]
    if op.kind in ("wkv", "delta"):
        return attrs["heads"], op.ins[0].width // attrs["heads"]
    return 0, 0


def places(ops: Sequence[Op]) -> tuple[dict[int, int], int]:
    """Where each op's state begins in a slot, by the number of its value, and the bytes of a slot."""
    offsets, size = {}, 0
    for op in ops:
        units, depth = shape(op)
        if units:
            offsets[op.out.id] = size
            size += state_bytes(units, op.out.width // units, depth)
    return offsets, size


def sequence_bytes(ops: Sequence[Op]) -> int:
    """States of one sequence with their copies."""
    return (1 + COPIES) * places(ops)[1]


class States:
    """The slots of all sequences, and of how many tokens each holds the states."""

    def __init__(self, ops: Sequence[Op], n_seq: int) -> None:
        self.bytes = places(ops)[1]
        self._memory = aligned(n_seq * (1 + COPIES) * self.bytes)  # pages are taken when first written
        self._slots = self._memory.reshape(n_seq, 1 + COPIES, self.bytes)  # the states themselves, then their copies
        self._home: int = self._slots.ctypes.data
        self._seen: list[int | None] = [0] * n_seq  # tokens; None while a step runs, and after one that broke off
        self._copied: list[dict[int, int]] = [{} for _ in range(n_seq)]  # tokens -> slot, oldest first

    def begin(self, seq: int, count: int) -> tuple[int, int]:
        """A step is to take `seq` on by `count` tokens: addresses of its states and of the copy, or 0."""
        if not self.bytes:
            return 0, 0
        self._seen[seq] = None
        slot = self._free(seq) if count > 1 else 0
        home = self._home + seq * (1 + COPIES) * self.bytes
        return home, home + slot * self.bytes if slot else 0

    def end(self, seq: int, length: int, count: int) -> None:
        """The step is done."""
        if not self.bytes:
            return
        if count > 1:
            self._copied[seq][length + count - 1] = self._free(seq)
        self._seen[seq] = length + count

    def broken(self, seq: int) -> bool:
        """Whether a step broke off, so that nobody knows how far the states have come."""
        return bool(self.bytes) and self._seen[seq] is None

    def reach(self, seq: int, length: int) -> int:
        """The most tokens, `length` or fewer, to which `cut` can go."""
        if not self.bytes or self._seen[seq] == length:
            return length
        return max((there for there in self._copied[seq] if there <= length), default=0)

    def cut(self, seq: int, length: int) -> None:
        """Go back to the states of `length` tokens, which is 0 or what `reach` says."""
        copied = self._copied[seq]
        if self.bytes and self._seen[seq] != length:
            self._slots[seq, 0] = self._slots[seq, copied[length]] if length else 0
        self._copied[seq] = {there: slot for there, slot in copied.items() if there <= length}
        self._seen[seq] = length

    def _free(self, seq: int) -> int:
        """A slot for a copy; the oldest is given up where all are taken."""
        copied = self._copied[seq]
        if len(copied) == COPIES:
            del copied[next(iter(copied))]
        return next(slot for slot in range(1, 1 + COPIES) if slot not in copied.values())
