"""What every quantised type says about itself, and the kernels that follow from it.

A type only unpacks: bytes of a block become 8-bit codes, and a scale and a minimum for each group of 16 or 32
weights, so that weight = scale * code + minimum.  The dot product with 8-bit activations and the panels of the
matrix multiply are the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.quants import few, panels
from edgeinfer.simd_kernels.quants.dot import Part, RowSums
from edgeinfer.simd_kernels.quants.panels import Group, Rows
from edgeinfer.simd_kernels.quants.streams import side_by_side, streams
from edgeinfer.simd_kernels.values import F32, Value, vec

if TYPE_CHECKING:
    from edgeinfer.simd_kernels.quants.stepped import SteppedPart


@dataclass(frozen=True)
class Codes:
    """Some blocks, unpacked.  Weight i of group g = i // group is scales[g] * code[i] + minimums[g]."""

    chunks: list[Value]  # u8[64] each, or less of a few small blocks; in them sixteens of weights in the type's `order`
    scales: Value  # f32[groups]
    minimums: Value  # f32[groups]


class Weights(NamedTuple):
    """What a type knows of some blocks before it looks at their codes."""

    scales: Value  # f32[groups]
    minimums: Value  # f32[groups], or where the type has an offset the scales
    more: Value | None = None  # the address of what else `factors` wants to know


class Quant:
    """A quantised tensor type.  `load` is all that a type must say."""

    name: str
    block: int  # weights
    bytes: int  # of a block
    group: int = 32  # weights that share a scale: 32 or 16
    largest: int  # code
    smallest: int = 0
    batch: int = 1  # blocks unpacked at once in the main loop
    paired: bool = False  # scales and minimums are unpacked as pairs
    offset: int = 0  # where all minimums are that many scales below zero: weight = scale * (code - offset)

    @property
    def wide(self) -> bool:
        """Whether codes above 127 occur."""
        return self.largest > 127

    def load(self, e: Emitter, w: Value, blocks: int) -> Codes:
        """Unpack so many blocks (1 or `batch`) from address `w`."""
        raise NotImplementedError

    def weights(self, e: Emitter, places: list[Value], blocks: int) -> list[Weights]:
        """Of so many blocks at each of these addresses; where the type is `paired`, f32[2 * groups] twice, in turn a
        scale and a minimum."""
        codes = [self.load(e, place, blocks) for place in places]
        if self.offset:
            return [Weights(c.scales, c.scales) for c in codes]
        return [Weights(c.scales, e.centred(c.minimums, c.scales, self.wide)) for c in codes]

    def factors(self, e: Emitter, w: Value, blocks: int, more: Value | None) -> list[Value]:
        """Chunks to be multiplied: codes."""
        return self.load(e, w, blocks).chunks

    def by_word(self, e: Emitter, w: Value) -> list[Value] | None:
        """What few.by_word makes of the chunks of the span at `w`, where the bytes of the file allow a shorter way."""
        return None

    def order(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Which sixteen weights stand at each 16 codes of the chunks: as it suits the layout."""
        return range(blocks * self.block // 16)

    def turn(self, e: Emitter, blocks: int) -> Sequence[int]:
        """Which group each scale that `weights` finds is of."""
        return range(blocks * self.block // self.group)

    def as_pairs(self, e: Emitter) -> bool:
        """Whether `weights` finds scales and minimums as pairs."""
        return self.paired

    def dot(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """out f32[rows] = rows of weights at `w` times one quantised row of activations (layout in activation.py)."""
        self._dot(e, w, row_bytes, rows, x, cols, out, False)

    def dot_fine(self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value) -> None:
        """As `dot`, of activations in their fine form."""
        self._dot(e, w, row_bytes, rows, x, cols, out, True)

    def few(self, e: Emitter, *places: Value) -> None:
        """As `dot`, of several rows of activations; `places` as few.few has them."""
        few.few(e, self, False, *places)

    def few_fine(self, e: Emitter, *places: Value) -> None:
        """As `few`, of activations in their fine form."""
        few.few(e, self, True, *places)

    def _dot(
        self, e: Emitter, w: Value, row_bytes: Value, rows: Value, x: Value, cols: Value, out: Value, fine: bool
    ) -> None:
        with side_by_side(e, w, row_bytes, rows, self.streams(e)) as (first, apart, count):
            sums = RowSums(e, self.streams(e), vec(F32, self.sum_lanes(e)), apart * row_bytes, count)
            for k, blocks, again in self._parts(e, cols):
                part, at = self.part(e, x, cols, fine, k, blocks, again), w + first * row_bytes + self._offset(k)
                for some, totals in sums.abreast():
                    part.add([at + row for row in some], totals)
            sums.write(out + first * 4, apart * 4)

    def part(
        self, e: Emitter, x: Value, cols: Value, fine: bool, k: Value, blocks: int, again: Value | None
    ) -> Part | SteppedPart:
        """What `dot` does with so many blocks of rows, from column `k` on."""
        return Part(e, self, x, cols, fine, k, blocks, again)

    def streams(self, e: Emitter) -> int:
        """How many rows `dot` reads side by side."""
        return streams(e)

    def sum_lanes(self, e: Emitter) -> int:
        """In how many lanes `part` sums a row."""
        return 16

    def panel(self, e: Emitter, *places: Value) -> None:
        """Rows of weights as columns of a panel; `places` as panels.of_words has them."""
        make = panels.of_rows if type(self).groups is Quant.groups else panels.of_words
        make(e, self, *places)

    def groups(self, e: Emitter, rows: Rows) -> Iterator[Group]:
        """The groups of one block of each of these rows, of types that are made panels by words."""
        raise NotImplementedError

    def steps(self, e: Emitter, w: Value) -> tuple[Value, Value]:
        """The scales of a block at `w` as whole numbers i32[groups] times f32[groups], of types where they are that and
        which are made panels by rows."""
        raise NotImplementedError

    def unpack(self, e: Emitter, w: Value, cols: Value, codes: Value, scales: Value, minimums: Value) -> None:
        """codes i8[cols], scales and minimums f32[cols / group] of one row's `cols` weights at `w`.

        Types with an offset get codes less their offset, and minimums of zero."""
        for start, stop, blocks in self._batches(cols):
            with e.loop(start, stop, blocks * self.block) as k:
                at = w + self._offset(k)
                unpacked = self.load(e, at, blocks)
                order = iter(self.order(e, blocks))
                for chunk in (chunk - self.offset for chunk in unpacked.chunks):
                    for sixteen in range(0, chunk.lanes, 16):
                        e.store(e.part(chunk, sixteen, 16), codes + (k + 16 * next(order)))
                first = k >> {32: 3, 16: 2}[self.group]  # 4 bytes for each group
                e.store(unpacked.scales, scales + first)
                e.store(e.const(unpacked.minimums.kind) if self.offset else unpacked.minimums, minimums + first)

    def _parts(self, e: Emitter, cols: Value) -> Iterator[tuple[Value, int, Value | None]]:
        """Loops over a row: (first column, blocks from there on, how many columns of these were in the part before).
        What is left of the row by `batch` goes by half as many, the last of which end with the row."""
        size, half = self.block * self.batch, self.block * (self.batch // 2)
        whole = cols & -size
        with e.loop(0, whole, size) as k:
            yield k, self.batch, None
        if half:
            with e.when(cols >= half), e.loop(whole, cols, half) as k:
                first = e.least(k, cols - half)
                yield first, self.batch // 2, k - first
            with e.when(cols < half), e.loop(0, cols, self.block) as k:
                yield k, 1, None

    def _batches(self, cols: Value) -> Iterator[tuple[Value | int, Value, int]]:
        """(first column, last, blocks at a time): by `batch`, then what is left by fewer, down to one."""
        start: Value | int = 0
        blocks = self.batch
        while blocks:
            stop = cols & -(self.block * blocks)
            yield start, stop, blocks
            start, blocks = stop, blocks // 4 or blocks // 2

    def _offset(self, k: Value) -> Value:
        """Bytes from a row's beginning to its column `k`."""
        return (k >> (self.block.bit_length() - 1)) * self.bytes
