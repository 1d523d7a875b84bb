"""The README's map names every source file, and no other; one architecture stands for all of them."""

import pathlib
import re

from edgeinfer import models

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["edgeinfer", "formats", "simd_kernels", "models", "onnx_export", "cli"]


def named():
    """(folder, file) for each file the map names, by the folder it is named under."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Folders")[2]
    folder = ""
    for line in text.partition("```")[2].partition("```")[0].splitlines():
        if top := re.match(r"(\w+)/", line):
            folder = top[1]
        elif inner := re.match(r"  (\w+)/", line):
            folder = f"{folder.partition('/')[0]}/{inner[1]}"
        elif re.match(r"  \w", line):
            folder = folder.partition("/")[0]
        yield from ((folder, name) for name in re.findall(r"\w+\.py\b", line))


def test_the_map_names_every_source_file_where_it_is():
    files = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    there = {(path.parent.as_posix(), path.name) for path in files if path.name != "__init__.py"}
    folders = ("models", "models/huggingface")
    architectures = {(folder, f"{name}.py") for folder in folders for name in models.names() if name != "llama"}
    assert {place for place in named() if place[0].partition("/")[0] in FOLDERS} == there - architectures


def test_other_files_it_names_are_there():
    assert all((ROOT / folder / name).is_file() for folder, name in named())
