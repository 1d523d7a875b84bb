"""The KV cache of the cpu backend: blocks of 16 tokens, found through a block table for each sequence.

Layers with the same window share their tables; those that keep keys of each so many-th position only have others. A
layer that sees everything takes blocks from a common pool as a sequence grows; a sliding-window layer has a ring of
blocks just long enough for its window and one step, so its memory does not grow with the context: the ring's table
simply repeats. Rolling back is cutting the table. (Block tables: https://arxiv.org/abs/2309.06180.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgeinfer.errors import BackendError
from edgeinfer.machine import pages
from edgeinfer.simd_kernels.layout import BLOCK, block_bytes, up


@dataclass(frozen=True)
class Layer:
    """What the cache must know of a layer's attention."""

    number: int
    window: int  # 0: sees everything
    kv_heads: int
    key_dim: int
    value_dim: int
    stride: int = 1  # of so many positions the last one is kept; layers with a window keep all

    @property
    def group(self) -> tuple[int, int]:
        return self.window, self.stride


class Group:
    """The block tables of all layers with one window and stride."""

    def __init__(
        self, window: int, n_ctx: int, n_batch: int, n_seq: int, together: int | None = None, stride: int = 1
    ) -> None:
        self.window, self.stride = window, stride
        self.blocks = max(up(n_ctx // stride, BLOCK) // BLOCK, 1)  # of a full sequence
        ring = (window + n_batch - 2) // BLOCK + 2  # blocks that window and step can touch, however they lie
        self.ring = min(ring, self.blocks) if window else 0
        self.each = self.ring or self.blocks
        self.tables = np.zeros((n_seq, self.blocks), np.int32)
        self._first_table: int = self.tables.ctypes.data
        self._table_bytes = 4 * self.blocks
        whole = n_seq * self.each
        self.pool_blocks = whole if together is None else min(whole, together // BLOCK + n_seq)
        self._free = list(range(self.pool_blocks - 1, -1, -1))
        self._held: list[list[int]] = [[] for _ in range(n_seq)]
        self._top = [0] * n_seq  # tokens the ring has seen

    def table(self, seq: int) -> int:
        """The address of the sequence's table."""
        return self._first_table + seq * self._table_bytes

    def grow(self, seq: int, length: int) -> None:
        """Have a block for every position below `length` that is kept."""
        held = self._held[seq]
        wanted = min(up(length // self.stride, BLOCK) // BLOCK, self.each)
        while len(held) < wanted:
            if not self._free:
                raise BackendError("the sequences hold more tokens together than there is room for")
            self.tables[seq, len(held) :: self.ring or self.blocks] = self._free[-1]
            held.append(self._free.pop())  # last: where an interrupt comes before it, the next step does both again
        self._top[seq] = max(self._top[seq], length)

    def keeps(self, seq: int, length: int) -> bool:
        """Whether the positions that token number `length` will look at are still held."""
        if not self.ring:
            return True
        oldest = (self._top[seq] - 1) // BLOCK - self.ring + 1
        return max(0, length - self.window + 1) // BLOCK >= oldest

    def cut(self, seq: int, length: int) -> None:
        """Give back what lies past `length`; a ring keeps its blocks until it is empty."""
        keep = up(length // self.stride, BLOCK) // BLOCK if not self.ring else self.ring if length else 0
        while len(self._held[seq]) > keep:
            self._free.append(self._held[seq].pop())
        if length == 0:
            self._top[seq] = 0


class KVCache:
    """Pools of all layers, tables and lengths of all sequences.

    `together`: tokens that all sequences hold at most; without it each may hold n_ctx."""

    def __init__(
        self,
        layers: Iterable[Layer],
        n_ctx: int,
        n_batch: int,
        n_seq: int,
        kv_type: str,
        together: int | None = None,
    ) -> None:
        self.n_ctx, self.kv_type = n_ctx, kv_type
        self.groups: dict[tuple[int, int], Group] = {}  # by window and stride
        self.pools: dict[int, np.ndarray] = {}  # uint8 by layer; pages are taken when first written
        self.group_of: dict[int, tuple[int, int]] = {}  # by layer
        for layer in layers:
            if layer.group not in self.groups:
                self.groups[layer.group] = Group(layer.window, n_ctx, n_batch, n_seq, together, layer.stride)
            self.group_of[layer.number] = layer.group
            block = layer.kv_heads * sum(block_bytes(kv_type, layer.key_dim, layer.value_dim))
            size = self.groups[layer.group].pool_blocks * block
            self.pools[layer.number] = pages(size, huge=False)  # of huge ones a head's first token would take two
        self.lengths: dict[int, int] = {}

    def grow(self, seq: int, length: int) -> None:
        for group in self.groups.values():
            group.grow(seq, length)

    def cut(self, seq: int, length: int) -> int:
        """Roll back to `length`, or to nothing where a ring has lost what the next token would look at."""
        kept = length if all(group.keeps(seq, length) for group in self.groups.values()) else 0
        for group in self.groups.values():
            group.cut(seq, kept)
        self.lengths[seq] = kept
        return kept
