"""`edgeinfer tune`: measures, says what it chose and keeps it."""

import json

from tests import tiny


def test_the_choice_is_kept(edgeinfer, tmp_path):
    done = edgeinfer("tune", tiny.write(tmp_path / "m.gguf"))
    assert done.returncode == 0 and done.stdout.startswith("decode "), done
    (shapes,) = json.loads((tmp_path / "home" / "threads.json").read_text()).values()
    assert all(1 <= number for numbers in shapes.values() for number in numbers) and len(shapes) == 1


def test_a_folder_that_cannot_be_written_is_an_error(edgeinfer, tmp_path):
    (tmp_path / "home" / "threads.json").mkdir()
    done = edgeinfer("tune", tiny.write(tmp_path / "m.gguf"))
    assert done.returncode == 1 and "cannot be kept" in done.stderr
