"""The order of the folders, the package list, and what an import costs."""

import ast
import pathlib
import subprocess
import sys

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["errors", "formats", "simd_kernels", "edgeinfer", "onnx_export", "cli"]  # each may import those before it
FOLDERS = ["edgeinfer", "formats", "simd_kernels", "models", "onnx_export", "cli"]
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def module_name(path):
    """edgeinfer.formats.gguf for formats/gguf.py."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts if parts[0] == "edgeinfer" else ["edgeinfer", *parts]).removesuffix(".__init__")


MODULES = {module_name(path) for path in SOURCES}


def layer(module):
    part = (module.split(".") + [""])[1].replace("__main__", "cli")  # which begins it
    return LAYERS.index(part if part in LAYERS else "edgeinfer")


def imported(path):
    """(line, module of edgeinfer) for every import of the file, wherever it stands, but for those of type checkers."""
    tree = ast.parse(path.read_text())
    skipped = {id(node) for test in ast.walk(tree) if is_typing_guard(test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} imports relatively"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in full]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "edgeinfer")


def is_typing_guard(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = layer(module_name(path))
    for line, module in imported(path):
        assert layer(module) <= own, f"{path.relative_to(ROOT)}:{line} imports {module}"


def test_a_wrong_import_would_be_found(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    from edgeinfer.cli import main\nfrom edgeinfer import errors")
    found = sorted(imported(tmp_path / "a.py"))
    assert [(line, LAYERS[layer(module)]) for line, module in found] == [(2, "cli"), (3, "errors")]
    assert layer("edgeinfer.cli.main") > layer("edgeinfer.llm") == layer("edgeinfer.models.llama")
    assert layer("edgeinfer.plan") > layer("edgeinfer.simd_kernels.cpu") > layer("edgeinfer.formats.gguf")


def test_packages_of_pyproject_are_the_folders():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
    assert sorted(tool["packages"]) == sorted(folders)
    assert {package: folder for package, folder in tool["package-dir"].items()} == {
        "edgeinfer": "edgeinfer",
        **{f"edgeinfer.{folder}": folder for folder in FOLDERS[1:]},
    }
    assert all((path.parent / "__init__.py").is_file() for path in SOURCES)


def test_version_is_that_of_pyproject():
    import edgeinfer

    assert edgeinfer.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def run(code):
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)


def test_python_started_in_a_checkout_finds_all_folders():
    code = "from importlib.util import find_spec; print(find_spec('edgeinfer.formats').origin)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert pathlib.Path(done.stdout.strip()) == ROOT / "formats" / "__init__.py"


def test_import_loads_nothing_heavy():
    done = run("import sys, edgeinfer; edgeinfer.errors; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & set("numpy numba llvmlite tokenizers sentencepiece jinja2 gguf psutil typer rich".split())
    assert {name for name in done.stdout.split() if name.startswith("edgeinfer.")} == {"edgeinfer.errors"}


def test_every_public_name_is_there():
    import edgeinfer

    for name in edgeinfer.__all__:
        assert getattr(edgeinfer, name).__name__.split(".")[-1] == name
    assert set(edgeinfer.__all__) <= set(dir(edgeinfer))
    with pytest.raises(AttributeError, match="no attribute 'LLMs'"):
        edgeinfer.LLMs  # noqa: B018
