"""Small random models of architectures and tensors of which the kit has none; `golden_decoders.py` keeps llama.cpp's
logits for them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np

from tests import tiny
from tests.models.encoders import Shapes, embedding, layers, matrix, values, vector

DIM, HEADS, KV_HEADS, HEAD_DIM, FF = 32, 4, 2, 16, 48
EXPERTS, USED, EXPERT_FF = 8, 3, 16
LAYERS, WINDOW = 4, 8
PROMPT = [int(i) for i in np.random.RandomState(0).randint(3, tiny.VOCAB, 24)]
KEPT = 48  # logits of a position


@dataclasses.dataclass(frozen=True)
class Case:
    """An architecture: its keys besides those that all have, and its tensors by GGUF's names."""

    arch: str
    keys: dict[str, Any]
    shapes: Shapes

    def write(self, path: pathlib.Path) -> pathlib.Path:
        """The model as a GGUF file of float32."""
        keys = {f"{self.arch}.{name}": value for name, value in (COMMON | self.keys).items()}
        tensors = {name: (values(name, shape), "F32") for name, shape in self.shapes.items()}
        tiny.save(path, {"general.architecture": self.arch} | keys | tiny.spm(), tensors)
        return path


COMMON: dict[str, Any] = {
    "context_length": 64,
    "embedding_length": DIM,
    "block_count": LAYERS,
    "feed_forward_length": FF,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.key_length": HEAD_DIM,
    "attention.value_length": HEAD_DIM,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10_000.0,
    "rope.dimension_count": HEAD_DIM,
}
MOE = {"expert_count": EXPERTS, "expert_used_count": USED, "expert_feed_forward_length": EXPERT_FF}

ENDS = embedding(tiny.VOCAB) | vector("output_norm") | matrix("output", tiny.VOCAB)
QUERY, OUT = matrix("attn_q", HEADS * HEAD_DIM), matrix("attn_output", DIM, HEADS * HEAD_DIM)
ATTENTION = QUERY | matrix("attn_k", KV_HEADS * HEAD_DIM) | matrix("attn_v", KV_HEADS * HEAD_DIM) | OUT
HEAD_NORMS = vector("attn_q_norm", HEAD_DIM) | vector("attn_k_norm", HEAD_DIM)
NORMS = vector("attn_norm") | vector("ffn_norm")
MLP = matrix("ffn_gate", FF) | matrix("ffn_up", FF) | matrix("ffn_down", DIM, FF)
WIDE = {"ffn_gate_exps.weight": (EXPERTS, EXPERT_FF, DIM), "ffn_up_exps.weight": (EXPERTS, EXPERT_FF, DIM)}
SPARSE = matrix("ffn_gate_inp", EXPERTS) | WIDE | {"ffn_down_exps.weight": (EXPERTS, DIM, EXPERT_FF)}


def scaled(shapes: Shapes) -> Shapes:
    """With the scales that come with NVFP4: one for each matrix."""
    matrices = {name.removesuffix(".weight"): shape for name, shape in shapes.items() if len(shape) > 1}
    counts = {name: shape[:-2] or (1,) for name, shape in matrices.items() if "_inp" not in name}
    return shapes | {f"{name}.{kind}": count for name, count in counts.items() for kind in ("scale", "input_scale")}


CASES = {
    "scales": Case("llama", {}, ENDS | layers(LAYERS, NORMS, scaled(ATTENTION), scaled(MLP))),
    "scales-of-experts": Case(
        "qwen3moe", MOE, ENDS | layers(LAYERS, NORMS, HEAD_NORMS, scaled(ATTENTION), scaled(SPARSE))
    ),
}
