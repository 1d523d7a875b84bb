"""The end of a step of which only the largest logits are wanted, in place of the output matrix's linear layer.

Either all logits are computed, and the few that can be among the largest are found by the largest of every 64; or the
coarse view of `edgeinfer.screen`, once it is there, bounds all of them from above.  Then the logits of the rows with
the highest bounds are computed; the k-th largest of these is one that the k largest reach; and so the logits of all
rows whose bound reaches it are computed, which the k largest are among.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgeinfer.backend import Top
from edgeinfer.lowering.nodes import Boards, parts
from edgeinfer.screen import Run, Screen, operation
from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.numbers import Numbers
from edgeinfer.simd_kernels.workers import Program

FIRST = 64  # rows beside k whose logits say what bounds are compared with
MOST_SHARE = 0.3  # of the rows computed after all, above which the view, half the matrix's bytes, does not pay
MEMORY, RETRY = 8, 32  # steps that the share is a mean of, and after which a view that did not pay is tried again
KERNELS = ("select.scan", "select.pick")
WANTED = record.PICK.names.index("wanted")
# Of a step: what the three operations have claimed; logits computed beside the view; rows found; groups not finite.
COUNTS = ("scan", "pick first", "pick", "rescored", "first", "found", "unsound")


class Found:
    """Rows that a step notes down, with their logits: ids i64[rows], values f32[rows]."""

    def __init__(self, rows: int) -> None:
        self.ids, self.values = layout.aligned(8 * rows), layout.aligned(4 * rows)
        self._ids = self.ids.data.cast("q")
        self._values = self.values.data.cast("f")

    def top(self, count: int, k: int) -> Top:
        """The k largest of so many."""
        ids, values = list(self._ids[:count]), list(self._values[:count])
        if count == 1:  # most often, where one is wanted
            return Top(ids, values)
        places = sorted(range(count), key=lambda place: (-values[place], ids[place]))[:k]
        return Top([ids[place] for place in places], [values[place] for place in places])


class Selection:
    """Runs a plan's records with an end of its own.  For steps with one output."""

    def __init__(
        self, body: np.ndarray, linear: Mapping[str, int], kernels: Mapping[str, int], screen: Screen | None
    ) -> None:
        """body: the plan's records but the last, the output matrix's linear layer, which has the fields `linear`."""
        self._linear, self._kernels, self._screen = linear, kernels, screen
        self._boards, rows = Boards(), linear["rows"]
        self._groups = np.array([-(-rows // layout.GROUP)])
        self._tops = layout.aligned(4 * self._groups[0]).view(np.float32)
        self._scores = layout.aligned(4 * layout.GROUP * self._groups[0]).view(np.float32)
        self._scores[rows:] = np.finfo(np.float32).min
        self._counts = Numbers(8 * len(COUNTS))  # all zero when a step begins
        self._rows = {name: Found(rows) for name in ("first", "found")}
        self._shares: dict[int, float] = {}  # of the rows computed beside the view, by k
        self._steps = 0
        self.spared = 0  # bytes that the last step read less than the whole matrix has
        matrix = {name: linear[name] for name in ("x", "w", "row_bytes", "cols", "bias", "dot")}
        tops, none = (self._tops, self._groups.ctypes.data), dict.fromkeys(matrix, 0)
        scores = self._scores_fields()
        scan = self._operation(record.SCAN, "select.scan", parts(rows, scores["chunk"]), **matrix, rows=rows, **scores)
        self._whole = Program(np.array([*body, scan, self._pick("pick", tops, "found", none)]))
        if screen:
            first = self._pick("pick first", tops, "first", matrix, keep=True)
            rest = self._pick("pick", (self._rows["first"].values, self._address("first")), "found", matrix)
            self._screened = Program(np.array([*body, *screen.records(self._boards, **scores), first, rest]))

    def run(self, run: Run, k: int) -> Top | None:
        """A step, and its k largest logits; None where scores are not finite."""
        screened = self._view_pays(k)
        program = self._screened if screened else self._whole
        if screened:
            program.set(-2, WANTED, k + FIRST)
        program.set(-1, WANTED, k)
        self._counts.clear()
        run(program)
        self.spared = 0
        if self.count("unsound"):
            self._screen = None
            return None
        if self._screen and screened:
            rescored, rows = self.count("rescored"), self._linear["rows"]
            self.spared = (rows - rescored) * self._linear["row_bytes"] - self._screen.size
            share = rescored / rows
            self._shares[k] = self._shares.get(k, share) + (share - self._shares.get(k, share)) / MEMORY
        return self._rows["found"].top(self.count("found"), k)

    def count(self, name: str) -> int:
        """One of COUNTS of the last step."""
        return self._counts.values[8 * COUNTS.index(name)]

    def _address(self, count: str) -> int:
        """Of one of COUNTS, each of which has a cache line."""
        return self._counts.address + 64 * COUNTS.index(count)

    def _view_pays(self, k: int) -> bool:
        """Whether there is a view and the last steps that used it had few rows left to compute."""
        self._steps += 1
        ready = self._screen is not None and self._screen.ready
        return ready and (self._shares.get(k, 0.0) <= MOST_SHARE or self._steps % RETRY == 0)

    def after_step(self, run: Run) -> None:
        """Go on with the view, if there is to be one."""
        if self._screen:
            self._screen.after_step(run)

    def _scores_fields(self) -> dict[str, int]:
        """Where scores go, and how many of them a worker computes at a time."""
        addresses = {"scores": self._scores.ctypes.data, "tops": self._tops.ctypes.data}
        chunk = layout.up(self._linear["chunk"], layout.GROUP)
        return addresses | {"counter": self._address("scan"), "chunk": chunk}

    def _pick(
        self,
        counter: str,
        source: tuple[np.ndarray, int],
        found: str,
        matrix: Mapping[str, int],
        keep: bool = False,
    ) -> np.ndarray:
        places = {
            "scores": self._scores,
            "tops": self._tops,
            "source": source[0],
            "ids": self._rows[found].ids,
            "values": self._rows[found].values,
        }
        counts = {"source_count": source[1], "counter": self._address(counter), "found": self._address(found)}
        counts |= {name: self._address(name) for name in ("rescored", "unsound")}
        sizes = {"groups": int(self._groups[0]), "rows": self._linear["rows"], "wanted": 0, "keep": int(keep)}
        addresses = {name: array.ctypes.data for name, array in places.items()}
        return self._operation(record.PICK, "select.pick", -1, **matrix, **sizes, **addresses, **counts)

    def _operation(self, form: record.Record, kernel: str, parts: int, **fields: int) -> np.ndarray:
        return operation(form, self._kernels[kernel], self._linear["count"], self._boards.of(parts), **fields)
