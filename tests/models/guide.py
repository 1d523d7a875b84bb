"""docs/models.md from the code and the kit: what each architecture is and needs, how many of the kit's models pass.

usage: python -m tests.models.guide    (from the project's root, with the conformance data in ../shared; some minutes)
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import tempfile
import textwrap
from collections.abc import Callable
from typing import Any

from edgeinfer import models
from edgeinfer.formats import gguf
from edgeinfer.models import huggingface
from edgeinfer.op import Op
from edgeinfer.plan import trace
from tests.models import decoders, oracle

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
PAGE = ROOT / "docs" / "models.md"
HEAD = """# Architectures

Made by `python -m tests.models.guide`; a test holds it against the code. An architecture is one file in `models/`,
under the name GGUF gives it, and is imported only when a file needs it. *Needs* is what its plans are made of beyond
embeddings, RMS norms, linear layers, rotary positions, causal attention and a gated feed-forward. *Passed* counts the
conformance models whose logits at every position are llama.cpp's (reference backend) and the reference's (cpu), in
one step, token by token and in odd pieces, and whose 16 greedy tokens are the same. For those of which it has
no model the tests hold other numbers: of the transformers library for the encoders, of llama.cpp, which read models of
the same tensors under their names, for hunyuan_vl, mellum, mistral4, paddleocr and qwen3vlmoe, and for the rest of
llama.cpp, which read small random models (`tests/models/decoders.py`).

An architecture is added by one file; but for its tests and this table nothing else changed when those five were
(`git log --stat -- models/mellum.py`). Nothing in the runtime knows an architecture by name, which a test holds too.

Of the names that llama.cpp has, one language model is missing: `qwen4exp`, which has, over Qwen3.5's layers, residual
streams mixed at a low rank, attention to blocks by compressed keys, and embeddings of n-grams by hash. `gptj` is a name
without a graph there. The rest is not text that goes on token by token: `clip`, what drafts for other models, diffusion
(`dream`, `llada`, `llada-moe`, `rnd1`), and speech.

llama.cpp looks the tanh form of GELU up in a table of float16; here it is exact, as the models' authors have it. That
table is all that lies between the two in the 20 conformance models that have this GELU: the largest difference of a
logit is 1.9e-3 to 9.8e-2 as it is and 2e-6 to 7.5e-3 once the reference rounds as the table does (gemma 4.4e-3 and
3.1e-5, grok 1.9e-3 and 2.2e-6, gpt2 3.1e-3 and 8.8e-5, gemma4 3.4e-2 and 4.1e-3; `benchmarks/gelu_table.py` has them
all). So *passed* judges the reference with the table's values, at a limit of 1e-2. Judged exact it misses the
tolerance in one model, gemma4, whose 3.4e-2 are over the 3.0e-2 allowed, as random errors of the same size in GELU
are, which move its logits by 3.1e-2 to 7.8e-2; rounding only GELU's input or only its output to float16, erf GELU and
GELU in float64 leave 2.6e-2 to 3.9e-2. The same architecture is held against transformers as well.

"""
FOLDERS = """
## Folders of Hugging Face's

Classes, as config.json names them in `architectures`, whose folders run as they are and convert: each is held against
transformers on a small random model, but Jina v2's and Nomic v2's experts, of which transformers has none, against a
statement of their maths in torch. Of some it has not the class but one whose maths are theirs under other names: Llama
for InternLM 2 and XVERSE, Granite for MiniCPM, StableLM for Orion, DeepSeek-OCR 2 for DeepSeek MoE and Ling 1, Sarvam
for Ling 2. Weights are taken as they are, so no quantised ones but GPT-OSS's MXFP4 and BitNet's packed ternary ones,
which llama.cpp runs with another activation.

Two pairs of sources differ in what RoPE turns. In dots.note's indexer transformers turns adjacent dimensions and
llama.cpp, for the same weights, those of two halves: a folder gives what transformers gives, as its rows are reordered.
In Hunyuan 4 transformers' class without vision turns halves, its class that sees and llama.cpp adjacent dimensions, as
here: the first is held against transformers with the rotation of the second.

"""
WITHOUT = """Folders of the others are not read: {}. Most have no class in transformers but code that comes with the
weights, and so nothing a folder could be held against. Phi-3.5-MoE has one, but GGUF's has RMS norms for its layer
norms, and gives the chosen experts other weights than its authors' router does. DeepSeek V4 has one, but its weights
are published in FP8 and FP4, which are not read from folders.
"""
Test = Callable[[Op], Any]
NEEDS: dict[str, Test] = {
    "layer norms": lambda op: op.kind == "layer_norm",
    "learned positions": lambda op: op.kind == "positions",
    "ALiBi": lambda op: op.kind == "attend" and op.attrs["slopes"],
    "sliding windows": lambda op: op.kind == "attend" and op.attrs["window"],
    "chunked attention": lambda op: op.kind == "attend" and op.attrs["chunk"],
    "attention to both sides": lambda op: op.kind == "attend" and not op.attrs.get("causal", True),
    "soft caps": lambda op: op.kind == "softcap" or (op.kind == "attend" and op.attrs["cap"]),
    "attention sinks": lambda op: op.kind == "attend" and op.weights and not op.attrs["buckets"],
    "biases by distance": lambda op: op.kind == "attend" and op.attrs["buckets"],
    "picked positions": lambda op: op.kind == "choose",
    "shared KV": lambda op: op.kind == "attend" and len(op.ins) == 1 and not op.attrs["text"],
    "a text read before": lambda op: op.kind == "store",
    "latent attention": lambda op: op.kind == "head_linear" and op.weights[0].endswith("attn_v_b.weight"),
    "pools of positions": lambda op: op.kind in ("condense", "overlap"),
    "experts": lambda op: op.kind == "expert_linear",
    "short convolutions": lambda op: op.kind == "conv",
    "state spaces": lambda op: op.kind == "ssm",
    "delta rule": lambda op: op.kind == "delta",
    "RWKV": lambda op: op.kind == "wkv",
    "token shift": lambda op: op.kind == "shift",
    "sparse activations": lambda op: op.kind == "sparsify",
    "tempered queries": lambda op: op.kind == "temper",
}


def families(name: str) -> str:
    """What the architecture's file says of itself, without its source."""
    text = importlib.import_module(f"edgeinfer.models.{name}").__doc__ or ""
    return " ".join(re.split(r"Sources?:", text)[0].split()).rstrip(".")


def cases() -> dict[str, list[dict[str, Any]]]:
    """The kit's models by the name of their architecture's file."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in models.names()}
    for case in json.loads((SHARED / "kit" / "arch" / "index.json").read_text()):
        found[case["arch"].replace("-", "_")].append(case)
    return found


def needs(arch: str) -> str:
    """What the plans of the kit's models and of our own random ones of this architecture are made of."""
    ops: list[Op] = []
    with tempfile.TemporaryDirectory() as folder:
        known = decoders.CASES | decoders.ANSWERS
        made = [case for case in known.values() if case.arch.replace("-", "_") == arch]
        paths = [case.write(pathlib.Path(folder) / f"{number}.gguf") for number, case in enumerate(made)]
        for path in paths + [SHARED / "kit" / "arch" / f"{case['name']}.gguf" for case in cases()[arch]]:
            with gguf.open(path) as file:
                traced = trace(file)
                ops += [*traced.ops, *(traced.reader.ops if traced.reader else ())]
    return ", ".join(need for need, test in NEEDS.items() if any(test(op) for op in ops))


def passed(check: Callable[[pathlib.Path, str], None], names: list[str]) -> str:
    """How many of these kit models a judge lets pass."""
    count = 0
    for name in names:
        try:
            check(SHARED, name)
            count += 1
        except AssertionError:
            pass
    return f"{count} of {len(names)}" if names else "-"


def lines(name: str) -> int:
    return len((ROOT / "models" / f"{name}.py").read_text().splitlines())


def page() -> str:
    rows = []
    for name, found in cases().items():
        names = [case["name"] for case in found]
        results = passed(oracle.check, names), passed(oracle.check_cpu, names)
        rows.append((f"`{name}`", families(name), needs(name), *results, str(lines(name))))
    table = [("file", "what it is", "needs", "passed, reference", "passed, cpu", "lines"), ("---",) * 6, *rows]
    return HEAD + "".join("| " + " | ".join(row) + " |\n" for row in table) + folders()


def folders() -> str:
    """The classes of each architecture's folders, and the architectures without any."""
    found: dict[str, list[str]] = {}
    for name, family in huggingface.classes().items():
        found.setdefault(family.__name__.rpartition(".")[2], []).append(name)
    lines = [f"- `{name}`: {', '.join(classes)}" for name, classes in found.items()]
    covered = {*found, *("nomic_bert_moe", "nemotron_h_moe")}  # whose classes are those of the files without _moe
    without = ", ".join(f"`{name}`" for name in models.names() if name not in covered)
    wrapped = [textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in lines]
    last = textwrap.fill(WITHOUT.format(without), 120, break_on_hyphens=False)
    return FOLDERS + "\n".join(wrapped) + f"\n\n{last}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("EDGEINFER_HOME", home)
        PAGE.write_text(page())
