"""Small random encoders in the layout of llama.cpp's converter, and the texts they are tried on.

`golden_encoders.py` gives the same weights to independent implementations and keeps what those make of the texts.
"""

from __future__ import annotations

import dataclasses
import pathlib
import zlib
from typing import Any

import numpy as np

from tests import tiny

DIM, HEADS, FF, CONTEXT, EXPERTS = 32, 2, 64, 96, 4
WORDS = 60
WINDOW = 16  # 8 to each side
TEXTS = [[7], [12, 9, 4, 31, 5], [int(i) for i in np.random.RandomState(0).randint(4, WORDS, 70)]]
QUERY, DOCUMENTS = "c a", ["b", "a d e", "e e b a c"]  # words of one token each: a is 4, b 5, ...
BERT_PAIRS = [[2, 6, 4, 3, 5, 3], [2, 6, 4, 3, 4, 7, 8, 3], [2, 6, 4, 3, 8, 8, 5, 4, 6, 3]]
ROBERTA_PAIRS = [[0, 6, 4, 2, 2, 5, 2], [0, 6, 4, 2, 2, 4, 7, 8, 2], [0, 6, 4, 2, 2, 8, 8, 5, 4, 6, 2]]
TEMPLATE = "<|im_start|>{query}|{document}<|im_end|>"
TEMPLATE_PAIRS = [  # letters are bytes, " a" is 259, " b" 270, " c" 278
    [298, 99, 259, 124, 98, 299],
    [298, 99, 259, 124, 97, 32, 100, 32, 101, 299],
    [298, 99, 259, 124, 101, 32, 101, 270, 259, 278, 299],
]


Shapes = dict[str, tuple[int, ...]]  # of tensors, by name


@dataclasses.dataclass(frozen=True)
class Case:
    """An architecture: its keys, the shapes of its tensors by GGUF's names, its vocabulary, the ids of its pairs."""

    arch: str
    keys: dict[str, Any]
    shapes: Shapes
    vocab: dict[str, Any]
    pairs: list[list[int]] = dataclasses.field(default_factory=list)

    def tensors(self) -> dict[str, np.ndarray]:
        return {name: values(name, shape) for name, shape in self.shapes.items()}

    def write(self, path: pathlib.Path, kind: str = "F32", **keys: Any) -> pathlib.Path:
        """The model as a GGUF file; `keys` are added to those under the architecture's prefix, _ standing for a dot."""
        more = {name.replace("__", "."): value for name, value in keys.items()}
        own = {f"{self.arch}.{name}": value for name, value in (common() | self.keys | more).items()}
        matrices = {name: (x, kind if x.ndim == 2 and x.shape[0] > 1 else "F32") for name, x in self.tensors().items()}
        tiny.save(path, {"general.architecture": self.arch} | own | self.vocab, matrices)
        return path


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that depend on the tensor's name alone, by a generator whose stream numpy keeps for ever."""
    x = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)
    if name.endswith("bias"):
        return np.float32(0.2) * x
    if len(shape) == 1:
        return 1 + np.float32(0.2) * x
    return x if "embd" in name or "types" in name else x * np.float32(1.3 / shape[-1] ** 0.5)


def common() -> dict[str, Any]:
    return {
        "context_length": CONTEXT,
        "embedding_length": DIM,
        "block_count": 3,
        "feed_forward_length": FF,
        "attention.head_count": HEADS,
        "attention.causal": False,
    }


LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
RMS_NORM = {"attention.layer_norm_rms_epsilon": 1e-6}


def words(model: str, specials: list[str], **ids: int) -> dict[str, Any]:
    """Four control tokens, then words: a, b, ... z, w30, w31, ..."""
    plain = [chr(97 + i) if i < 26 else f"w{i + 4}" for i in range(WORDS - 4)]
    return {
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": [*specials, *(f"▁{word}" for word in plain)],
        "tokenizer.ggml.scores": [0.0] * 4 + [-1.0 - i / 100 for i in range(WORDS - 4)],
        "tokenizer.ggml.token_type": [3, 2, 3, 3] + [1] * (WORDS - 4),
        **{f"tokenizer.ggml.{name}": value for name, value in ids.items()},
    }


BERT = words(
    "bert", ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], token_type_count=2,
    unknown_token_id=1, cls_token_id=2, seperator_token_id=3,
)  # fmt: skip
ROBERTA = words(
    "t5", ["<s>", "<unk>", "</s>", "<pad>"], token_type_count=1, unknown_token_id=1, bos_token_id=0, eos_token_id=2,
    add_bos_token=True, add_eos_token=True,
)  # fmt: skip


def affine(name: str, rows: int, cols: int = DIM) -> Shapes:
    return {f"{name}.weight": (rows, cols), f"{name}.bias": (rows,)}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": (DIM,), f"{name}.bias": (DIM,)}


def matrix(name: str, rows: int, cols: int = DIM) -> Shapes:
    return {f"{name}.weight": (rows, cols)}


def vector(name: str, size: int = DIM) -> Shapes:
    return {f"{name}.weight": (size,)}


def layers(count: int, *parts: Shapes) -> Shapes:
    return {f"blk.{layer}.{name}": shape for layer in range(count) for part in parts for name, shape in part.items()}


def embedding(vocab: int = WORDS, types: int = 0) -> Shapes:
    return matrix("token_embd", vocab) | (matrix("token_types", types) if types else {})


def without_bias(shapes: Shapes) -> Shapes:
    return {name: shape for name, shape in shapes.items() if not name.endswith("bias")}


POST_NORMS = norm("attn_output_norm") | norm("layer_output_norm")
OUT = affine("attn_output", DIM)
SPLIT_QKV = affine("attn_q", DIM) | affine("attn_k", DIM) | affine("attn_v", DIM)
QKV = affine("attn_qkv", 3 * DIM)
MLP = affine("ffn_up", FF) | affine("ffn_down", DIM, FF)
GATED = matrix("ffn_gate", FF) | matrix("ffn_up", FF) | matrix("ffn_down", DIM, FF)
CLASSIFIER = affine("cls", DIM) | affine("cls.output", 1)
GQA = {"attention.key_length": 16, "attention.value_length": 16, "attention.head_count_kv": 1}
GQA_QKV = matrix("attn_q", DIM) | matrix("attn_k", 16) | matrix("attn_v", 16) | matrix("attn_output", DIM)
HEAD_NORMS = vector("attn_q_norm", 16) | vector("attn_k_norm", 16)

CASES = {
    "bert": Case(
        "bert",
        LAYER_NORM | {"pooling_type": 2},
        embedding(types=2) | matrix("position_embd", CONTEXT) | norm("token_embd_norm") | CLASSIFIER
        | layers(3, SPLIT_QKV, OUT, MLP, POST_NORMS),
        BERT,
        BERT_PAIRS,
    ),
    "xlm-r": Case(
        "bert",
        LAYER_NORM | {"pooling_type": 4},
        embedding(types=1) | matrix("position_embd", CONTEXT) | norm("token_embd_norm") | CLASSIFIER
        | layers(3, SPLIT_QKV, OUT, MLP, POST_NORMS),
        ROBERTA,
        ROBERTA_PAIRS,
    ),
    "nomic-bert": Case(
        "nomic-bert",
        LAYER_NORM | {"rope.freq_base": 1000.0, "pooling_type": 1},
        embedding(types=2) | norm("token_embd_norm")
        | layers(3, without_bias(QKV), without_bias(OUT), GATED, POST_NORMS),
        BERT,
    ),
    "nomic-bert-moe": Case(
        "nomic-bert-moe",
        LAYER_NORM | {"rope.freq_base": 10000.0, "moe_every_n_layers": 2, "expert_count": EXPERTS,
                      "expert_used_count": 2, "pooling_type": 1},
        embedding(types=1) | norm("token_embd_norm") | layers(3, QKV, OUT, POST_NORMS)
        | {name: shape for name, shape in layers(3, MLP).items() if ".1." not in name}
        | {"blk.1.ffn_gate_inp.weight": (EXPERTS, DIM), "blk.1.ffn_up_exps.weight": (EXPERTS, FF, DIM),
           "blk.1.ffn_down_exps.weight": (EXPERTS, DIM, FF)},
        ROBERTA,
    ),
    "jina-bert-v2": Case(
        "jina-bert-v2",
        LAYER_NORM | {"pooling_type": 1},
        embedding(types=2) | norm("token_embd_norm") | affine("cls", 1)
        | layers(3, SPLIT_QKV, OUT, matrix("ffn_up", 2 * FF), affine("ffn_down", DIM, FF), POST_NORMS),
        ROBERTA | {"tokenizer.ggml.token_type_count": 2},
        ROBERTA_PAIRS,
    ),
    "jina-bert-v2-code": Case(
        "jina-bert-v2",
        LAYER_NORM | {"pooling_type": 1},
        embedding(types=2) | norm("token_embd_norm") | layers(3, SPLIT_QKV, norm("attn_q_norm"), norm("attn_k_norm"))
        | layers(3, OUT, norm("attn_norm_2"), matrix("ffn_gate", FF), matrix("ffn_up", FF))
        | layers(3, affine("ffn_down", DIM, FF), POST_NORMS),
        ROBERTA | {"tokenizer.ggml.token_type_count": 2},
    ),
    "jina-bert-v3": Case(
        "jina-bert-v3",
        LAYER_NORM | {"rope.freq_base": 20000.0, "pooling_type": 1},
        embedding(types=1) | norm("token_embd_norm") | layers(3, QKV, OUT, MLP, POST_NORMS),
        ROBERTA,
    ),
    "modern-bert": Case(
        "modern-bert",
        LAYER_NORM | {"block_count": 4, "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 3,
                      "rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "none",
                      "pooling_type": 2, "classifier.pooling_type": 1, "hidden_activation": "gelu"},
        embedding() | vector("token_embd_norm") | vector("output_norm") | matrix("cls", DIM) | vector("cls.norm")
        | affine("cls.output", 1)
        | layers(4, matrix("attn_qkv", 3 * DIM), matrix("attn_output", DIM), matrix("ffn_up", 2 * FF),
                 matrix("ffn_down", DIM, FF), vector("ffn_norm"))
        | {f"blk.{layer}.attn_norm.weight": (DIM,) for layer in (1, 2, 3)},
        BERT,
        BERT_PAIRS,
    ),
    "gemma-embedding": Case(
        "gemma-embedding",
        RMS_NORM | GQA | {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 3,
                          "rope.freq_base": 1e6, "dense_2_feat_in": DIM, "dense_2_feat_out": 96,
                          "dense_3_feat_in": 96, "dense_3_feat_out": DIM, "pooling_type": 1},
        embedding() | vector("output_norm") | matrix("dense_2", 96) | matrix("dense_3", DIM, 96)
        | layers(3, GQA_QKV, HEAD_NORMS, GATED, vector("attn_norm"), vector("post_attention_norm"))
        | layers(3, vector("ffn_norm"), vector("post_ffw_norm")),
        ROBERTA,
    ),
    "qwen3": Case(
        "qwen3",
        RMS_NORM | GQA | {"attention.causal": True, "rope.freq_base": 1e6, "pooling_type": 4,
                          "classifier.output_labels": ["yes", "no"]},
        embedding(tiny.VOCAB) | vector("output_norm") | matrix("cls.output", 2)
        | layers(3, GQA_QKV, HEAD_NORMS, GATED, vector("attn_norm"), vector("ffn_norm")),
        tiny.bpe() | {"tokenizer.ggml.add_eos_token": True, "tokenizer.chat_template.rerank": TEMPLATE},
        TEMPLATE_PAIRS,
    ),
}  # fmt: skip
