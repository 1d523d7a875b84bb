"""Names, aliases, the store's place, and what `resolve` makes of paths and names."""

import sys
from pathlib import Path

import pytest

from edgeinfer.errors import RequestError
from edgeinfer.models import catalog


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", str(tmp_path / "home"))


def store_file(entry, size):
    entry.path.parent.mkdir(parents=True)
    with open(entry.path, "wb") as file:
        file.truncate(size)


def test_every_entry_says_what_is_needed_to_check_it():
    entries = catalog.entries()
    names = [name for entry in entries for name in (entry.name, *entry.aliases)]
    assert len(set(names)) == len(names)
    for entry in entries:
        assert entry.bytes > 0 and len(bytes.fromhex(entry.sha256)) == 32
        assert entry.licence and entry.description and entry.file.endswith(".gguf")
        assert all("==" in package for package in entry.packages)


def test_the_default_is_the_instruct_model_and_has_a_short_name():
    assert catalog.default().name == "smollm2-135m-instruct"
    assert catalog.find("SmolLM2") is catalog.default()


def test_home_follows_the_environment(tmp_path, monkeypatch):
    assert catalog.store() == tmp_path / "home" / "models"
    monkeypatch.delenv("EDGEINFER_HOME")
    if sys.platform.startswith("linux"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert catalog.home() == tmp_path / "edgeinfer"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert catalog.home() == Path.home() / ".cache" / "edgeinfer"
    monkeypatch.setenv("EDGEINFER_HOME", "~/of-mine")
    assert catalog.home() == Path.home() / "of-mine"


def test_an_existing_file_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("smollm2").write_bytes(b"")
    assert catalog.resolve("smollm2", fetch=False) == Path("smollm2")


@pytest.mark.parametrize("name", ["missing.gguf", "folder/model"])
def test_what_looks_like_a_path_is_left_to_whoever_opens_it(name):
    assert catalog.resolve(name) == Path(name)


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("USERPROFILE" if sys.platform == "win32" else "HOME", str(tmp_path))
    assert catalog.resolve("~/m.gguf") == tmp_path / "m.gguf"
    assert catalog.resolve("a/~/m.gguf") == Path("a/~/m.gguf")


def test_an_address_is_no_path():
    with pytest.raises(RequestError, match="'https://host/m.gguf' is no path"):
        catalog.resolve("https://host/m.gguf")


def test_a_folder_is_left_to_whoever_opens_it(tmp_path):
    assert catalog.resolve(tmp_path) == tmp_path


def test_a_path_may_be_bytes_and_nothing_but_a_path():
    assert catalog.resolve(b"m\xff.gguf") == Path("m\udcff.gguf")
    for what in (None, 5, ["m.gguf"]):
        with pytest.raises(RequestError, match=f"a path or a name, not {type(what).__name__}"):
            catalog.resolve(what)


def test_a_store_that_cannot_be_looked_into_has_nothing(monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", "/" + "x" * 1000)
    assert not catalog.default().stored


def test_a_stored_model_is_found_without_a_pull():
    entry = catalog.default()
    store_file(entry, entry.bytes)
    assert entry.stored and catalog.resolve("smollm2", fetch=False) == entry.path


def test_a_file_of_another_size_does_not_count_as_stored():
    entry = catalog.default()
    store_file(entry, entry.bytes - 1)
    assert not entry.stored
    with pytest.raises(RequestError, match="edgeinfer pull smollm2-135m-instruct"):
        catalog.resolve("smollm2", fetch=False)


def test_an_unknown_name_gets_the_closest_or_all_names():
    with pytest.raises(RequestError, match="'smolm2'.*did you mean 'smollm2'"):
        catalog.resolve("smolm2")
    with pytest.raises(RequestError, match="'zzz'.*smollm2-135m-instruct, gemma-3-270m"):
        catalog.resolve("zzz")
