"""`edgeinfer tune`: measures, says what it chose and keeps it."""

import json

from tests import tiny
from tests.models import encoders


def test_the_choice_is_kept(edgeinfer, tmp_path):
    done = edgeinfer("tune", tiny.write(tmp_path / "m.gguf"))
    assert done.returncode == 0 and done.stdout.startswith("decode "), done
    (shapes,) = json.loads((tmp_path / "home" / "threads.json").read_text()).values()
    assert all(1 <= number for numbers in shapes.values() for number in numbers) and len(shapes) == 1


def test_a_folder_that_cannot_be_written_is_an_error(edgeinfer, tmp_path):
    (tmp_path / "home" / "threads.json").mkdir()
    done = edgeinfer("tune", tiny.write(tmp_path / "m.gguf"))
    assert done.returncode == 1 and f"cannot be kept in {tmp_path / 'home'}: Is a directory" in done.stderr


def test_a_context_shorter_than_what_is_measured_is_enough(edgeinfer, tmp_path):
    for path in (encoders.CASES["bert"].write(tmp_path / "m.gguf"), tiny.write(tmp_path / "n.gguf", context=16)):
        done = edgeinfer("tune", path)
        assert done.returncode == 0 and done.stdout.startswith("decode "), done
