"""Architectures and keys of which the kit has no model, but one of the same tensors: its weights under other names,
against logits of llama.cpp for the same file (renamed.json: the first of the last position)."""

import dataclasses
import json
import pathlib
import struct

import numpy as np
import pytest

import edgeinfer
from tests.fuzz.gguf_parts import ARRAY, STRING, Pair, parse

KIT = pathlib.Path(__file__).resolve().parents[3] / "shared" / "kit" / "arch"
GOLDEN = json.loads(pathlib.Path(__file__).with_name("renamed.json").read_text())
KEPT = 48  # logits
SECTIONS = {"rope.dimension_sections": [4, 2, 2, 0]}
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
}
LOCAL = {"rope.freq_base_swa": 100.0, "attention.sliding_window_pattern": 3}
TURNING = {"rope.dimension_count_swa": 8}  # of a head in layers with windows
GROWING = {"attention.temperature_scale": 0.5, "attention.temperature_length": 4}


@dataclasses.dataclass(frozen=True)
class Case:
    arch: str
    base: str
    keys: dict = dataclasses.field(default_factory=dict)
    tolerance: float = 5e-4  # of a logit; where llama.cpp looks GELU up in a table they differ by some thousandths


CASES = {
    "cohere2-pattern": Case("cohere2", "cohere2", {"attention.sliding_window_pattern": 2}),
    "afmoe-pattern": Case("afmoe", "afmoe", {"attention.sliding_window_pattern": 2}),
    "afmoe-bases": Case("afmoe", "afmoe", {**LOCAL, **YARN}),
    "afmoe-turning": Case("afmoe", "afmoe", TURNING),
    "cohere2-turning": Case("cohere2", "cohere2", TURNING),
    "deepseek2-nextn": Case("deepseek2", "deepseek2-mla", {"nextn_predict_layers": 1}),
    "exaone4-pattern": Case("exaone4", "exaone4-swa64", {"attention.sliding_window_pattern": 2}),
    "gemma2-bases": Case("gemma2", "gemma2", {**LOCAL, **YARN}, 1e-2),
    "gemma3-grown": Case("gemma3", "gemma3", {**YARN, "rope.scaling.attn_factor": 1.7}, 3e-2),
    "gpt-oss-bases": Case("gpt-oss", "gpt-oss", LOCAL),
    "hunyuan_vl": Case("hunyuan_vl", "hunyuan-dense", SECTIONS),
    "hunyuan-dense-grown": Case("hunyuan-dense", "hunyuan-dense", {"rope.scaling.alpha": 50.0}),
    "lfm2-window": Case("lfm2", "lfm2", {"attention.sliding_window": 8}),
    "llama4-groups": Case("llama4", "llama4", {"expert_group_count": 2, "expert_group_used_count": 1}),
    "llama4-bases": Case("llama4", "llama4", {**LOCAL, **YARN}),
    "mellum": Case("mellum", "qwen3moe"),
    "mellum-windows": Case("mellum", "qwen3moe", {"attention.sliding_window": 8}),
    "mellum-pattern": Case(
        "mellum", "qwen3moe", {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2}
    ),
    "mellum-yarn": Case(
        "mellum", "qwen3moe", {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, **YARN}
    ),
    "mistral4": Case("mistral4", "deepseek2-mla", GROWING),
    "mistral4-yarn": Case("mistral4", "deepseek2-groups-yarn"),
    "paddleocr": Case("paddleocr", "ernie4_5", SECTIONS),
    "qwen3vlmoe": Case("qwen3vlmoe", "qwen3moe", SECTIONS),
    "smallthinker-bases": Case("smallthinker", "smallthinker", {"attention.sliding_window": 4096, **LOCAL}),
}


def renamed(path, arch, keys):
    """The file under another architecture's name, with these keys besides."""
    parts = parse(path.read_bytes())
    old = parts.value(b"general.architecture")
    for at, pair in enumerate(parts.pairs):
        if pair.key == b"general.architecture":
            parts.pairs[at] = pair.with_value(arch.encode())
        elif pair.key.startswith(old + b"."):
            parts.pairs[at] = dataclasses.replace(pair, key=arch.encode() + pair.key[len(old) :])
    parts.pairs += [_pair(f"{arch}.{key}".encode(), value) for key, value in keys.items()]
    return parts.write()


def _pair(key, value):
    if isinstance(value, str):
        return Pair(key, STRING, value.encode())
    if isinstance(value, list):
        return Pair(key, ARRAY, b"", 5).with_value(struct.pack(f"<{len(value)}i", *value))
    return (
        Pair(key, 6, struct.pack("<f", value)) if isinstance(value, float) else Pair(key, 4, struct.pack("<I", value))
    )


@pytest.mark.parametrize("name", CASES)
def test_logits_are_llama_cpps(shared, tmp_path, name):
    case = CASES[name]
    (tmp_path / "m.gguf").write_bytes(renamed(KIT / f"{case.base}.gguf", case.arch, case.keys))
    stated = json.loads((KIT / f"{case.base}.json").read_text())
    with edgeinfer.LLM(tmp_path / "m.gguf", n_ctx=64, backend="reference") as llm:
        found = llm.logits(stated["prompt"])[-1, :KEPT]
    assert np.abs(found - GOLDEN[name]).max() < case.tolerance
