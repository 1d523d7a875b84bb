"""Folders of classes that transformers has not, whose maths are those of one that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.huggingface_golden.settings import BASE
from tests.huggingface import golden

Shapes = dict[str, tuple[int, ...]]
Twin = Callable[[Mapping[str, tuple[int, ...]]], tuple[dict[str, np.ndarray], Shapes]]

INTERNLM2 = {
    "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
}


def internlm2(shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, np.ndarray], Shapes]:
    """Llama's tensors, and the shapes of those that they were taken from: of each K and V, first the rows of the heads
    of Q that share them, then K's, then V's."""
    tensors, kept = {}, Shapes()
    heads, groups = (int(str(BASE[f"num_{kind}_heads"])) for kind in ("attention", "key_value"))
    for key, shape in shapes.items():
        if key.endswith("q_proj.weight"):
            source = key.replace("self_attn.q_proj", "attention.wqkv")
            size, width = shape[0] // heads, shape[1]
            kept[source] = ((heads + 2 * groups) * size, width)
            each = golden.weights(source, kept[source]).reshape(groups, -1, size, width)
            for name, x in (("q", each[:, :-2]), ("k", each[:, -2]), ("v", each[:, -1])):
                tensors[key.replace("q_proj", f"{name}_proj")] = np.ascontiguousarray(x).reshape(-1, width)
        elif not key.endswith(("k_proj.weight", "v_proj.weight")):
            source = key
            for here, there in INTERNLM2.items():
                source = source.replace(here, there)
            tensors[key], kept[source] = golden.weights(source, shape), shape
    return tensors, kept


def bailing_moe(shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, np.ndarray], Shapes]:
    """DeepSeek-OCR 2's tensors, with Q's, K's and V's rows in one matrix."""
    tensors, kept = {}, Shapes()
    for key, shape in shapes.items():
        if key.endswith("self_attn.q_proj.weight") and key.startswith("model.layers"):
            source, names = key.replace("self_attn.q_proj", "attention.query_key_value"), "qkv"
            parts = {name: key.replace("q_proj", f"{name}_proj") for name in names}
            ends = np.cumsum([shapes[part][0] for part in parts.values()])
            kept[source] = (int(ends[-1]), shape[1])
            pieces = np.split(golden.weights(source, kept[source]), ends[:-1])
            tensors |= dict(zip(parts.values(), map(np.ascontiguousarray, pieces), strict=True))
        elif key not in tensors:
            source = key.replace("self_attn.o_proj", "attention.dense").replace("embed_tokens", "word_embeddings")
            if not (key.startswith("model.layers") and key.endswith(("k_proj.weight", "v_proj.weight"))):
                tensors[key], kept[source] = golden.weights(source, shape), shape
    return tensors, kept


TWINS: dict[str, Twin] = {"internlm2": internlm2, "bailing_moe": bailing_moe}
