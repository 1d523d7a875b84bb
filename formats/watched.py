"""Tells an open file whose times were set, as `touch` and backups do, from one that was written to: inotify, of Linux.

Elsewhere, and where the system gives no more watches, nobody knows."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import threading

_WRITTEN, _SET = 2, 4  # IN_MODIFY; IN_ATTRIB: times, rights or links
_EVENT = struct.Struct("iIII")  # watch, what was done, a cookie, bytes of a name: files have none
_AT_A_TIME = 256 * _EVENT.size

_lock = threading.RLock()  # a watch may go, by the garbage collector, in the middle of another's work
_queue: _Queue | None = None


class Watch:
    """What others do to the file behind a descriptor from now on."""

    def __init__(self, file: int) -> None:
        self.done = 0  # of _WRITTEN and _SET
        with _lock:
            self._queue = _current()
            self._number = self._queue.add(file, self)

    def only_set(self) -> bool:
        """Whether times or rights were set since it was asked last and nothing was written since the start.

        False where nobody knows.  What is written through a map, or by another machine, is not seen."""
        with _lock:
            self._queue.drain()
            done, self.done = self.done, self.done & _WRITTEN
            return done == _SET

    def close(self) -> None:
        with _lock:
            self._queue.remove(self._number, self)


class _Queue:
    """Where all events of this process arrive: a user may have no more than some hundred of these."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._libc = ctypes.CDLL(None)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform == "linux" else -1
        self._watches: dict[int, set[Watch]] = {}  # by number, of which each file has one

    def add(self, file: int, watch: Watch) -> int:
        """The number of a watch, -1 where there is none."""
        if self._file < 0:
            return -1
        self.drain()  # to those who were there
        number: int = self._libc.inotify_add_watch(self._file, f"/proc/self/fd/{file}".encode(), _WRITTEN | _SET)
        if number >= 0:
            self._watches.setdefault(number, set()).add(watch)
        return number

    def remove(self, number: int, watch: Watch) -> None:
        others = self._watches.get(number, set())
        others.discard(watch)
        if not others and self._watches.pop(number, None) is not None and self.process == os.getpid():
            self._libc.inotify_rm_watch(self._file, number)

    def drain(self) -> None:
        if self._file < 0 or self.process != os.getpid():  # a fork shares its parent's queue, and must leave it alone
            return
        with contextlib.suppress(BlockingIOError):  # there are no more
            while True:
                for number, done, _, _ in _EVENT.iter_unpack(os.read(self._file, _AT_A_TIME)):
                    if number < 0:  # there were more than the system keeps
                        self._tell(_WRITTEN, *self._watches)
                    else:
                        self._tell(done, number)

    def _tell(self, done: int, *numbers: int) -> None:
        for watch in [watch for number in numbers for watch in self._watches.get(number, ())]:
            watch.done |= done


def _current() -> _Queue:
    global _queue
    if _queue is None or _queue.process != os.getpid():
        _queue = _Queue()
    return _queue
