"""How many workers a step of one token is worth, when other programs want the cores as well.

Workers wait for each other many times a step.  One whose core has been given to another program for some milliseconds
holds up all of them, so that two on one and a half cores are slower than one alone.
"""

WINDOW = 4  # steps that are judged together
LOST = 0.4  # of their time: when somebody waits longer than this, one worker less may be faster
REST = 8  # windows until all are tried again, and twice as many each time that was too early,
LONGEST_REST = 32  # up to this
STUBBORN = 64  # windows in which waiting is borne, as less workers were no faster


class Pace:
    """`threads`: how many workers the next step should have, of `most`."""

    def __init__(self, most: int) -> None:
        self.threads = self._most = most
        self._window: list[tuple[int, int]] = []
        self._before = 0.0  # ticks a step took before a worker was left out
        self._pause = 0  # windows until something may change
        self._rest = REST
        self._seen = [(0, 0)] * most

    def look(self, times: list[tuple[int, int]]) -> None:
        """After a step: ticks that each worker has run in all and waited in all."""
        times = times[: self._most]
        took = times[0][0] - self._seen[0][0]
        waited = max(now - before for (_, now), (_, before) in zip(times, self._seen, strict=True))
        self._seen = times
        self.note(took, waited)

    def note(self, took: int, waited: int) -> None:
        """After a step of so many ticks, so many of which one of the workers waited."""
        self._window.append((took, waited))
        if len(self._window) < WINDOW:
            return
        whole, lost = (sum(ticks) for ticks in zip(*self._window, strict=True))
        self._window.clear()
        self._pause -= 1
        before, self._before = self._before, 0.0
        if before and whole >= before:
            self.threads, self._pause = self.threads + 1, STUBBORN
        elif self._pause <= 0 and self.threads < self._most:
            self.threads += 1
        elif self._pause <= 0 and self.threads > 1 and lost > LOST * whole:
            self.threads, self._pause, self._before = self.threads - 1, self._rest, float(whole)
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif self.threads == self._most:
            self._rest = REST
