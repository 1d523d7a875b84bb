"""Finding architectures: one short file each, and no other is imported."""

import inspect
import pathlib
import re
import subprocess
import sys

import pytest

from edgeinfer import models
from edgeinfer.errors import UnsupportedError
from edgeinfer.models import huggingface
from edgeinfer.tokenizer import vocabulary


@pytest.mark.parametrize("arch", models.names())
def test_an_architecture_is_one_function(arch):
    forward = models.find(arch)
    assert list(inspect.signature(forward).parameters) == ["b"]
    assert inspect.getfile(forward).startswith(models.__path__[0])


@pytest.mark.parametrize("folder", [models, huggingface], ids=["models", "huggingface"])
def test_no_file_of_an_architecture_has_more_than_80_lines(folder):
    """That `names()` gives: what finds and fetches them is longer."""
    files = {path.stem: path for path in pathlib.Path(folder.__path__[0]).glob("*.py")}
    lines = {name: len(files[name].read_text().splitlines()) for name in files.keys() & {*models.names()}}
    assert len(lines) > 60 and {name: count for name, count in lines.items() if count > 80} == {}


def test_only_the_file_asked_for_is_imported():
    code = (
        "import sys; from edgeinfer import models; models.find('qwen3');"
        "print([arch for arch in models.names() if f'edgeinfer.models.{arch}' in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['qwen3']"


@pytest.mark.parametrize("name", ["nosuchmodel", "", "catalog", "fetch", "__init__", "../plan", "os.path"])
def test_what_is_no_architecture_is_named(name):
    with pytest.raises(UnsupportedError, match="is none of the .* that are supported") as raised:
        models.find(name)
    assert repr(name) in str(raised.value)


def test_a_near_miss_is_told_the_closest():
    with pytest.raises(UnsupportedError, match="the closest are: gemma3"):
        models.find("gema3")


def test_hyphens_of_the_name_are_underscores_of_the_file():
    assert models.find("command-r").__module__.endswith("command_r")


def test_parts_beside_forward_are_found_where_there_are_any():
    assert models.part("gemma-embedding", "project") and models.part("qwen3", "rank")
    assert models.part("llama", "rank") is None


def test_nothing_that_runs_a_model_knows_an_architecture_by_name():
    """Kinds of vocabularies, which tokenizers do know, have the names of architectures too."""
    root = pathlib.Path(__file__).resolve().parents[2]
    names = {spelt for name in models.names() for spelt in (name, name.replace("_", "-"))} - set(vocabulary.MODELS)
    words = re.compile("|".join(rf"[\"']{re.escape(name)}[\"']" for name in names))
    folders = ["edgeinfer", *(f"edgeinfer/{part}" for part in ("verbs", "lowering", "reference_ops"))]
    sources = [path for folder in (*folders, "formats", "simd_kernels", "cli") for path in (root / folder).glob("*.py")]
    assert len(sources) > 100
    assert [str(path) for path in sources if words.search(path.read_text())] == []
