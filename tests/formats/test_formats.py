"""What importing the formats costs and offers."""

import subprocess
import sys

HEAVY = "gguf numba llvmlite tokenizers sentencepiece jinja2 typer rich psutil".split()


def test_import_needs_numpy_only():
    code = f"import sys, edgeinfer.formats; sys.exit(' '.join(set({HEAVY}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names():
    from edgeinfer import formats

    assert formats.dequantize.__name__ == "dequantize" and formats.gguf.open and formats.ggml.GgmlType
