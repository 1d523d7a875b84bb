"""Models that have a view of their output matrix after few steps."""

from threading import Thread

import pytest

from edgeinfer import screen, selection


class Waited(Thread):
    """Has ended when it has begun."""

    def start(self):
        super().start()
        self.join()


def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 8 steps, 2 of which build it, every model has one, and uses it however many rows it leaves."""
    monkeypatch.setattr(screen, "fits", lambda plan: True)
    monkeypatch.setattr(screen, "SEEN", 6)
    monkeypatch.setattr(screen, "STEPS", 2)
    monkeypatch.setattr(screen, "Thread", Waited)
    monkeypatch.setattr(selection, "RETRY", 1)
