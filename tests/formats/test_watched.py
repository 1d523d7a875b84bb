"""What others do to an open file: setting its times is told from writing to it."""

import ctypes
import os
import pathlib
import sys

import pytest

from edgeinfer.formats import watched
from edgeinfer.formats.watched import Watch


@pytest.fixture
def path(tmp_path):
    if sys.platform != "linux" or ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC) < 0:
        pytest.skip("needs inotify")
    (tmp_path / "file").write_bytes(bytes(100))
    return str(tmp_path / "file")


@pytest.fixture
def file(path):
    with open(path, "rb") as file:
        yield file.fileno()


def write(path):
    with open(path, "r+b") as file:
        file.write(b"x")


def test_setting_is_told_from_writing(path, file):
    watch = Watch(file)
    assert not watch.only_set()
    os.utime(path)
    assert watch.only_set() and not watch.only_set()
    for change in (write, lambda path: os.truncate(path, 100), os.utime):
        change(path)
        assert not watch.only_set()  # once it was written to nothing makes up for that
    watch.close()


def test_what_was_done_before_does_not_count(path, file):
    first = Watch(file)
    write(path)
    second = Watch(file)
    os.utime(path)
    assert second.only_set() and not first.only_set()
    first.close()
    os.utime(path)
    assert second.only_set()
    second.close()
    third = Watch(file)
    os.utime(path)
    assert third.only_set()
    third.close()


def test_a_fork_leaves_its_parents_events_alone(path, file):
    watch = Watch(file)
    os.utime(path)
    child = os.fork()
    if not child:
        own = not watch.only_set()
        watch.close()
        watch = Watch(file)
        os.utime(path)
        os._exit(0 if own and watch.only_set() else 1)
    assert os.waitpid(child, 0)[1] == 0 and watch.only_set()
    watch.close()


def test_many_events_are_all_read(path, file):
    watch = Watch(file)
    for _ in range(400):
        os.utime(path)
        os.close(os.open(path, os.O_RDONLY))
        os.chmod(path, 0o600)
    write(path)
    assert not watch.only_set()
    watch.close()


def test_events_that_were_lost_count_as_writing(path, file, tmp_path, monkeypatch):
    monkeypatch.setattr(watched, "_queue", None)
    (tmp_path / "other").touch()
    with open(tmp_path / "other", "rb") as other:
        watches = Watch(file), Watch(other.fileno())
        for _ in range(int(pathlib.Path("/proc/sys/fs/inotify/max_queued_events").read_text()) // 2 + 1):
            os.utime(path)
            os.utime(tmp_path / "other")
        assert not any(watch.only_set() for watch in watches)
    for watch in watches:
        watch.close()


def test_where_there_are_no_watches_nobody_knows(path, file, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(watched, "_queue", None)
    watch = Watch(file)
    os.utime(path)
    assert not watch.only_set()
    watch.close()
