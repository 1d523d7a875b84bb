"""Mapping files, and giving the map back."""

import os
import pathlib
import re
import sys
import time

import numpy as np
import pytest

from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats import mapped
from edgeinfer.formats.mapped import MAPS, Mapped
from edgeinfer.formats.watched import Watch


def maps(path):
    """Whether the process has `path` mapped."""
    table = pathlib.Path("/proc/self/maps")
    if not table.is_file():
        pytest.skip("needs /proc/self/maps, which is Linux's")
    return str(path) in table.read_text()


def tick():
    """Lets the file system's clock go on, by which two writings differ."""
    time.sleep(0.02)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)))
    return str(tmp_path / "file")


def test_view_is_a_read_only_part_of_the_file(path):
    view = Mapped(path).view(10, 3)
    assert view.dtype == np.uint8 and view.tolist() == [10, 11, 12] and not view.flags.writeable


def test_close_releases_the_map_at_once(path):
    file = Mapped(path)
    assert maps(path)
    file.close()
    assert not maps(path)


def test_a_view_outlives_close(path):
    file = Mapped(path)
    view = file.view(0, 4)
    file.close()
    assert view.tolist() == [0, 1, 2, 3] and maps(path)
    del view
    assert not maps(path)


def test_use_after_close_is_an_error(path):
    file = Mapped(path)
    file.close()
    file.close()
    with pytest.raises(RequestError, match="the file is closed"):
        file.view(0, 1)


def test_a_file_cut_short_is_found_before_it_is_used(path):
    file = Mapped(path)
    file.check()
    os.truncate(path, 255)
    for use in (file.check, lambda: file.view(250, 6)):
        with pytest.raises(FormatError, match="was cut short while it was in use"):
            use()
    file.close()
    file.check()


def test_a_file_written_to_is_found_and_one_replaced_is_none(path):
    file = Mapped(path)
    pathlib.Path(path + ".new").write_bytes(bytes(256))
    os.replace(path + ".new", path)
    other = Mapped(path)
    os.remove(path)  # what is mapped stays until it is given back
    file.check()
    other.check()
    pathlib.Path(path).write_bytes(bytes(256))
    other = Mapped(path)
    tick()
    pathlib.Path(path).write_bytes(bytes(256))
    for use in (other.check, other.check):
        with pytest.raises(FormatError, match="the file was changed while it was in use"):
            use()
    file.check()


@pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")
def test_a_file_of_which_times_were_set_is_the_same(path):
    first, second = Mapped(path), Mapped(path)
    for times in ((0, 0), (5, 7)):
        os.utime(path, ns=times)
        first.check()
    os.chmod(path, 0o600)
    second.check()
    tick()
    with open(path, "r+b") as file:
        file.write(b"x")
    os.utime(path)
    for each in (first, second):
        with pytest.raises(FormatError, match="was changed"):
            each.check()


def test_where_nobody_knows_what_was_done_other_times_are_a_change(path, monkeypatch):
    monkeypatch.setattr(Watch, "only_set", lambda watch: False)
    file = Mapped(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(FormatError, match="was changed"):
        file.check()


def test_where_no_entry_is_free_a_file_is_mapped_all_the_same(path, monkeypatch):
    monkeypatch.setattr(mapped, "_free", [])
    file = Mapped(path)
    file.check()
    assert file.view(255, 1).tolist() == [255]
    tick()
    pathlib.Path(path).write_bytes(bytes(256))
    with pytest.raises(FormatError, match="was changed"):
        file.check()


def test_what_a_map_holds_goes_with_its_last_view(path):
    files, entries = pathlib.Path("/proc/self/fd"), int((MAPS[:, 1] > 0).sum())
    if not files.is_dir():
        pytest.skip("needs /proc/self/fd, which is Linux's")
    Mapped(path).close()  # brings in what serves all maps
    held = len(list(files.iterdir()))
    view = Mapped(path).view(0, 4)
    assert (MAPS[:, 1] > 0).sum() == entries + 1 and len(list(files.iterdir())) > held
    del view
    assert (MAPS[:, 1] > 0).sum() == entries and len(list(files.iterdir())) == held


def test_empty_file(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(FormatError, match="empty"):
        Mapped(str(tmp_path / "empty"))


def test_missing_file(tmp_path):
    with pytest.raises(FormatError, match="No such file"):
        Mapped(str(tmp_path / "none"))


def test_null_byte_in_the_path(tmp_path):
    with pytest.raises(FormatError, match="null"):
        Mapped(str(tmp_path / "a\0b"))


def test_directory(tmp_path):
    with pytest.raises(FormatError, match="is a directory"):
        Mapped(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="not a regular file"):
        Mapped(str(tmp_path / "pipe"))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's madvise")
def test_populate_maps_every_page(tmp_path):
    (tmp_path / "file").write_bytes(bytes(1 << 24))
    file = Mapped(str(tmp_path / "file"))
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (5, 14):
        file.populate()
        return
    assert resident(tmp_path / "file") == 0
    file.populate()
    assert resident(tmp_path / "file") == 1 << 24


def test_populate_of_a_file_cut_short_or_closed_does_nothing(path):
    file = Mapped(path)
    os.truncate(path, 0)
    file.populate()
    file.close()
    file.populate()


def resident(path):
    """Bytes of the file that are mapped into this process just now."""
    with open("/proc/self/smaps") as maps:
        lines = iter(maps.read().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
    return 0
