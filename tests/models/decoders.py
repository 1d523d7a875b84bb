"""Small random models of architectures and tensors of which the kit has none; `golden_decoders.py` keeps llama.cpp's
logits for them, and the mean of the rows of encoders, `golden_chameleon.py` those of transformers for the one of which
llama.cpp leaves out a sum."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tests import tiny
from tests.models.encoders import GQA_QKV, Shapes, embedding, layers, matrix, values, vector

PAGE = pathlib.Path(__file__).with_name("decoders.json")
DIM, HEADS, KV_HEADS, HEAD_DIM, FF = 32, 4, 2, 16, 48
EXPERTS, USED, EXPERT_FF = 8, 3, 16
LAYERS, WINDOW = 4, 8
KEPT = 48  # logits of a position


@dataclasses.dataclass(frozen=True)
class Case:
    """An architecture: its keys besides those that all have, and its tensors by GGUF's names."""

    arch: str
    keys: dict[str, Any]
    shapes: Shapes
    tolerance: float = 1e-4  # of a logit: how far apart sums in another order are here; more where there is GELU
    flash: bool = False  # llama.cpp picks blocks of positions only so, and rounds K and V to float16 then
    first: int = 0  # of the logits that are kept
    length: int = 24  # of the prompt

    @property
    def context(self) -> int:
        return int((COMMON | self.keys)["context_length"])

    @property
    def prompt(self) -> list[int]:
        return [int(i) for i in np.random.RandomState(0).randint(3, tiny.VOCAB, self.length)]

    def write(self, path: pathlib.Path) -> pathlib.Path:
        """The model as a GGUF file of float32."""
        keys = {f"{self.arch}.{name}": value for name, value in (COMMON | self.keys).items()}
        tensors = {name: (values(name, shape), "F32") for name, shape in self.shapes.items()}
        tensors |= {name: (-np.abs(x), kind) for name, (x, kind) in tensors.items() if name.endswith("ssm_a")}
        tensors |= {
            name: (np.abs(99 * x).astype(np.int32) % EXPERTS, "I32")
            for name, (x, _) in tensors.items()
            if name.endswith("tid2eid.weight")
        }
        rows = self.shapes["token_embd.weight"][0]
        tiny.save(path, {"general.architecture": self.arch} | keys | vocabulary(rows), tensors)
        return path


PROMPT = Case("", {}, {}).prompt


def vocabulary(size: int) -> dict[str, Any]:
    """That of `tiny.spm`, with unused tokens behind it."""
    keys, unused = tiny.spm(), range(tiny.VOCAB, size)
    for name, more in (("tokens", [f"<{i}>" for i in unused]), ("scores", [-1e3]), ("token_type", [5])):
        keys[f"tokenizer.ggml.{name}"] += more * (len(unused) // len(more) if unused else 0)
    return keys


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
EACH_NORMED = matrix("attn_q_norm", HEADS, HEAD_DIM) | matrix("attn_k_norm", KV_HEADS, HEAD_DIM)
NORMS = vector("attn_norm") | vector("ffn_norm")
MLP = matrix("ffn_gate", FF) | matrix("ffn_up", FF) | matrix("ffn_down", DIM, FF)
WIDE = {"ffn_gate_exps.weight": (EXPERTS, EXPERT_FF, DIM), "ffn_up_exps.weight": (EXPERTS, EXPERT_FF, DIM)}
SPARSE = matrix("ffn_gate_inp", EXPERTS) | WIDE | {"ffn_down_exps.weight": (EXPERTS, DIM, EXPERT_FF)}
ROUTED = SPARSE | {"exp_probs_b.bias": (EXPERTS,)}
SHARED = (
    matrix("ffn_gate_shexp", EXPERT_FF) | matrix("ffn_up_shexp", EXPERT_FF) | matrix("ffn_down_shexp", DIM, EXPERT_FF)
)
FUSED = matrix("attn_qkv", (HEADS + 2 * KV_HEADS) * HEAD_DIM) | OUT
UP_TWICE = matrix("ffn_up", 2 * FF) | matrix("ffn_down", DIM, FF)
POST_NORMS = {"post_attention_norm": (DIM,), "post_ffw_norm": (DIM,)}
GATE, WIDE_GATE = matrix("attn_gate", HEADS), matrix("attn_gate", HEADS * HEAD_DIM)
GLIMMER_NORMS = vector("post_attention_norm") | vector("post_ffw_norm")

BARE_BIAS = {"exp_probs_b": (EXPERTS,)}

WINDOWED = {"attention.sliding_window": WINDOW}
PATTERN = {**WINDOWED, "attention.sliding_window_pattern": [True, False, True, True], "rope.freq_base_swa": 100.0}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
WEIGHED = {
    **MOE,
    "expert_weights_norm": True,
    "expert_weights_scale": 2.5,
    "expert_shared_count": 1,
    "expert_gating_func": 2,
}


def scaled(shapes: Shapes) -> Shapes:
    """With the scales that come with NVFP4: one for each matrix."""
    matrices = {name.removesuffix(".weight"): shape for name, shape in shapes.items() if len(shape) > 1}
    counts = {name: shape[:-2] or (1,) for name, shape in matrices.items() if "_inp" not in name}
    return shapes | {f"{name}.{kind}": count for name, count in counts.items() for kind in ("scale", "input_scale")}


def each(parts: Callable[[int], Shapes]) -> Shapes:
    """All layers, by what each consists of."""
    return {f"blk.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in parts(layer).items()}


def mixed(*parts: Shapes, sparse: Shapes = ROUTED | SHARED) -> Shapes:
    """Layers of these parts, the first with a dense feed-forward and the others with experts."""
    return layers(LAYERS, *parts) | each(lambda layer: sparse if layer else MLP)


STATE, RANK, SIZE = 16, 64, 16  # of PLaMo 2's state space; of Kimi's heads
MAMBA: Shapes = {
    "ssm_in.weight": (4 * DIM, DIM), "ssm_conv1d.weight": (2 * DIM, 4), "ssm_x.weight": (2 * STATE + RANK, 2 * DIM),
    "ssm_dt.weight": (4, RANK), "ssm_dt.bias": (4,), "ssm_a": (4,), "ssm_d": (4,), "ssm_out.weight": (DIM, 2 * DIM),
    "ssm_dt_norm": (RANK,), "ssm_b_norm": (STATE,), "ssm_c_norm": (STATE,),
}  # fmt: skip
SSM = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 2 * DIM,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": 4,
    "ssm.group_count": 0,
}
WHOLE = HEADS * SIZE
KDA: Shapes = (
    {f"ssm_conv1d_{x}.weight": (WHOLE, 1, 4) for x in "qkv"}
    | {f"attn_{x}.weight": (WHOLE, DIM) for x in "qkv"}
    | {f"ssm_{x}_a.weight": (SIZE, DIM) for x in "fg"} | {f"ssm_{x}_b.weight": (WHOLE, SIZE) for x in "fg"}
    | matrix("ssm_beta", HEADS) | {"ssm_a": (HEADS, 1), "ssm_dt.bias": (WHOLE,)} | vector("ssm_norm", SIZE) | OUT
)  # fmt: skip
LATENT, TURNING = 24, 8
MLA = {
    "attention.kv_lora_rank": LATENT, "attention.key_length_mla": HEAD_DIM + TURNING, "rope.dimension_count": TURNING,
    "attention.value_length_mla": HEAD_DIM, "attention.key_length": LATENT + TURNING, "attention.value_length": LATENT,
}  # fmt: skip
MLA_ATTENTION = (
    matrix("attn_q", HEADS * (HEAD_DIM + TURNING)) | matrix("attn_kv_a_mqa", LATENT + TURNING)
    | vector("attn_kv_a_norm", LATENT) | OUT
    | {"attn_k_b.weight": (HEADS, LATENT, HEAD_DIM), "attn_v_b.weight": (HEADS, HEAD_DIM, LATENT)}
)  # fmt: skip


SPARSE_MLA = {
    **WEIGHED, **MLA, "attention.q_lora_rank": 24, "attention.head_count_kv": 1, "leading_dense_block_count": 1,
    "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 64,
}  # fmt: skip
PICKS = {"attention.indexer.top_k": 8}  # fewer than the prompt has
INDEXER: Shapes = {
    "indexer.k_norm.weight": (128,), "indexer.k_norm.bias": (128,), "indexer.proj.weight": (64, DIM),
    "indexer.attn_k.weight": (128, DIM), "indexer.attn_q_b.weight": (64 * 128, 24),
}  # fmt: skip
LOW_RANK_Q = matrix("attn_q_a", 24) | vector("attn_q_a_norm", 24) | matrix("attn_q_b", HEADS * (HEAD_DIM + TURNING), 24)
LOW_RANK = {name: shape for name, shape in MLA_ATTENTION.items() if name != "attn_q.weight"} | LOW_RANK_Q
INDEXED = LOW_RANK | INDEXER
WHOLE_KDA = {name: shape for name, shape in KDA.items() if name[:6] not in ("ssm_f_", "ssm_g_")} | {
    f"ssm_{x}_a.weight": (WHOLE, DIM) for x in "fg"
}
FULL_GATE_KDA = {name: shape for name, shape in KDA.items() if name[:6] != "ssm_g_"} | {
    "ssm_g.weight": (WHOLE, DIM), "ssm_a": (HEADS,)
}  # fmt: skip
RES_SCORES = vector("attn_res_score") | vector("ffn_res_score")
LATENT_SPARSE: Shapes = (
    {name: shape for name, shape in ROUTED.items() if "exps" not in name}
    | {f"ffn_{x}_exps.weight": (EXPERTS, EXPERT_FF, 16) for x in ("gate", "up")}
    | {"ffn_down_exps.weight": (EXPERTS, 16, EXPERT_FF)}
    | matrix("ffn_routed_down", 16) | matrix("ffn_routed_up", DIM, 16) | vector("ffn_routed_norm", 16)
)  # fmt: skip
LIGHTNING = (
    matrix("attn_qkv", 3 * WHOLE) | matrix("attn_gate", WHOLE) | vector("attn_norm_2", WHOLE)
    | matrix("attn_output", DIM, WHOLE)
)  # fmt: skip
STREAM_COUNT = 3
STREAMED = {
    **WEIGHED, **MLA, "attention.q_lora_rank": 24, "attention.head_count_kv": 1, "leading_dense_block_count": 1,
    "hyper_connection.count": STREAM_COUNT, "hyper_connection.epsilon": 0.01, "hyper_connection.magnitude": 1.5,
}  # fmt: skip
STREAM_HEAD: Shapes = {
    "output_hc_fn.weight": (STREAM_COUNT, STREAM_COUNT * DIM), "output_hc_base.weight": (STREAM_COUNT,),
    "output_hc_scale.weight": (1,),
}  # fmt: skip
STREAMS: Shapes = {
    name: shape
    for part in ("attn", "ffn")
    for name, shape in {
        f"hc_{part}_fn.weight": (2 * STREAM_COUNT, STREAM_COUNT * DIM),
        f"hc_{part}_base.weight": (2 * STREAM_COUNT,),
        f"hc_{part}_scale.weight": (2,),
    }.items()
}
SUNK = LOW_RANK | WIDE_GATE | vector("attn_sinks", HEADS)
NEAR_HEADS, NEAR_RANK, NEAR_DIM = 2, 16, 8  # of dots.note's layers with windows
NOTED = {
    **SPARSE_MLA, **WINDOWED, "attention.sliding_window_pattern": [True, False, True, False],
    "attention.head_count": [NEAR_HEADS, HEADS] * 2, "attention.kv_lora_rank_swa": NEAR_RANK,
    "attention.key_length_mla_swa": NEAR_DIM + TURNING, "attention.value_length_mla_swa": NEAR_DIM,
    "attention.key_length_swa": NEAR_RANK + TURNING, "attention.value_length_swa": NEAR_RANK,
    "rope.freq_base_swa": 100.0, "attention.indexer.types": [False, True, False, True],
}  # fmt: skip
NEAR: Shapes = {
    "attn_q_b.weight": (NEAR_HEADS * (NEAR_DIM + TURNING), 24), "attn_kv_a_mqa.weight": (NEAR_RANK + TURNING, DIM),
    "attn_kv_a_norm.weight": (NEAR_RANK,), "attn_k_b.weight": (NEAR_HEADS, NEAR_RANK, NEAR_DIM),
    "attn_v_b.weight": (NEAR_HEADS, NEAR_DIM, NEAR_RANK), "attn_output.weight": (DIM, NEAR_HEADS * NEAR_DIM),
    "attn_gate.weight": (NEAR_HEADS, DIM),
}  # fmt: skip
NOTE_SHAPES = (
    ENDS
    | mixed(NORMS, LOW_RANK, GATE, vector("attn_k_norm", TURNING))
    | each(lambda layer: INDEXER if layer % 2 else NEAR)
)

IN_BLOCKS = {
    **WEIGHED, "rope.dimension_count": 8, "leading_dense_block_count": 1,
    "attention.indexer.head_count": KV_HEADS, "attention.indexer.key_length": 16, "attention.indexer.top_k": 4,
    "attention.indexer.block_size": 16, "attention.indexer.local_blocks": 1,
}  # fmt: skip
ONE_BLOCK = {"attention.indexer.top_k": 1, "attention.indexer.local_blocks": 0}
PICKS_BLOCKS = (
    matrix("indexer.q_proj", KV_HEADS * 16) | matrix("indexer.k_proj", 16)
    | vector("indexer.q_norm", 16) | vector("indexer.k_norm", 16)
)  # fmt: skip
BLOCK_SHAPES = ENDS | mixed(NORMS, HEAD_NORMS, ATTENTION, sparse=ROUTED | SHARED | PICKS_BLOCKS)
MIXED_STREAMS: Shapes = {
    f"hc_{part}_{name}": shape
    for part in ("attn", "ffn")
    for name, shape in (("fn.weight", (24, 4 * DIM)), ("base.weight", (24,)), ("scale.weight", (3,)))
}
STILL: Shapes = LOW_RANK | {"attn_q_b.weight": (HEADS * HEAD_DIM, 24), "attn_kv_a_mqa.weight": (LATENT, DIM)}
POOLS: Shapes = INDEXER | {
    "indexer_compressor_gate.weight": (128, DIM), "indexer_compressor_ape.weight": (4, 128),
}  # fmt: skip
UNTURNED = {
    **{name: value for name, value in SPARSE_MLA.items() if name != "expert_gating_func"}, "rope.dimension_count": 0,
    "attention.key_length_mla": HEAD_DIM, "attention.key_length": LATENT, "attention.head_count_kv": [0, 0, 1, 0],
    "ssm.conv_kernel": 4, "kda.head_dim": SIZE, "kda.gate_lower_bound": -0.5, "attention.indexer.kpool": 4,
    "hyper_connection.count": 4, "hyper_connection.epsilon": 0.01, "hyper_connection.sinkhorn_iterations": 5,
    "swiglu_clamp_exp": [0.6, 0.7, 0.8, 7.0],
}  # fmt: skip

POOLED = {
    **WEIGHED, **WINDOWED, "context_length": 320, "attention.q_lora_rank": 24, "attention.head_count_kv": 1,
    "rope.dimension_count": TURNING, "attention.compress_rope_freq_base": 300.0, "expert_gating_func": 4,
    "attention.compress_ratios": [0, 4, 128, 4, 0], "nextn_predict_layers": 1,  # which is left out
    "attention.output_group_count": 2, "attention.output_lora_rank": 12,
    "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 512,
    "hyper_connection.count": 4, "hyper_connection.epsilon": 0.01, "hyper_connection.sinkhorn_iterations": 5,
    "hash_layer_count": 2, "swiglu_clamp_exp": [0.6, 0.7, 0.8, 7.0],
}  # fmt: skip


def compressor(name: str, width: int, size: int) -> Shapes:
    """What makes keys of pools of so many positions."""
    rows = 2 * width if size == 4 else width
    linears = {f"{name}_compressor_{part}.weight": (rows, DIM) for part in ("kv", "gate")}
    return linears | {f"{name}_compressor_ape.weight": (size, rows), f"{name}_compressor_norm.weight": (width,)}


MQA: Shapes = (
    matrix("attn_q_a", 24) | vector("attn_q_a_norm", 24) | matrix("attn_q_b", HEADS * HEAD_DIM, 24)
    | matrix("attn_kv", HEAD_DIM) | vector("attn_kv_a_norm", HEAD_DIM) | vector("attn_sinks", HEADS)
    | matrix("attn_output_a", 2 * 12, HEADS * HEAD_DIM // 2) | matrix("attn_output_b", DIM, 2 * 12)
)  # fmt: skip
PICKS_POOLS: Shapes = compressor("indexer", 128, 4) | {
    "indexer.proj.weight": (64, DIM), "indexer.attn_q_b.weight": (64 * 128, 24),
}  # fmt: skip
HASHED: Shapes = SPARSE | SHARED | {"ffn_gate_tid2eid.weight": (tiny.VOCAB, USED)}
POOLED_LAYERS = [{}, compressor("attn", HEAD_DIM, 4) | PICKS_POOLS, compressor("attn", HEAD_DIM, 128)]
POOLED_LAYERS.append(POOLED_LAYERS[1])
FOUR_STREAMS: Shapes = {
    "output_hc_fn.weight": (4, 4 * DIM), "output_hc_base.weight": (4,), "output_hc_scale.weight": (1,),
}  # fmt: skip
POOLED_SHAPES = (
    ENDS
    | FOUR_STREAMS
    | layers(LAYERS, NORMS, MIXED_STREAMS, MQA)
    | each(lambda layer: POOLED_LAYERS[layer] | (HASHED if layer < 2 else ROUTED | SHARED))
)

LING_3 = {
    **SPARSE_MLA, "ssm.conv_kernel": 4, "kda.head_dim": SIZE, "kda.gate_lower_bound": -5.0,
    "attention.head_count_kv": [0, 0, 1, 0],
}  # fmt: skip

DEEP, RANK_7 = 128, 8  # of ARWKV 7, whose heads are 64 wide
RANKS = {f"attention.{name}_lora_rank": RANK_7 for name in ("decay", "iclr", "value_residual_mix")}
TIME_MIX: Shapes = {
    **{f"time_mix_{name}.weight": (DEEP, DEEP) for name in ("receptance", "key", "value", "output")},
    **{f"time_mix_{x}0.weight": (DEEP,) for x in "wav"}, **{f"time_mix_{x}1.weight": (RANK_7, DEEP) for x in "wav"},
    **{f"time_mix_{x}2.weight": (DEEP, RANK_7) for x in "wav"},
    **{f"time_mix_{name}.weight": (DEEP,) for name in ("k_k", "k_a", "r_k")},
    "time_mix_lerp_fused.weight": (5, 1, 1, DEEP),
}  # fmt: skip
DEEP_MLP = matrix("ffn_gate", FF, DEEP) | matrix("ffn_up", FF, DEEP) | matrix("ffn_down", DEEP, FF)
DEEP_ENDS = matrix("token_embd", tiny.VOCAB, DEEP) | vector("output_norm", DEEP) | matrix("output", tiny.VOCAB, DEEP)


LINEAR_MIX: Shapes = {
    **{f"time_mix_{name}.weight": (DEEP, DEEP) for name in ("receptance", "gate", "output")},
    **{f"time_mix_{name}.weight": (DEEP // 2, DEEP) for name in ("key", "value")},
    **{f"time_mix_{name}.bias": (DEEP // 2,) for name in ("key", "value")},
    "time_mix_receptance.bias": (DEEP,),
    "time_mix_w1.weight": (5 * RANK_7, DEEP), "time_mix_w2.weight": (5, DEEP, RANK_7),
    "time_mix_lerp_x.weight": (1, 1, DEEP), "time_mix_lerp_fused.weight": (5, 1, 1, DEEP),
    "time_mix_decay.weight": (DEEP,), "time_mix_decay_w1.weight": (RANK_7, DEEP),
    "time_mix_decay_w2.weight": (DEEP, RANK_7),
}  # fmt: skip
SMALL: Shapes = {
    "ffn_gate_chexps.weight": (EXPERTS // 2, 8, DIM), "ffn_up_chexps.weight": (EXPERTS // 2, 8, DIM),
    "ffn_down_chexps.weight": (EXPERTS // 2, DIM, 8),
}  # fmt: skip
FULL = {"attention.head_count": 2, "attention.head_count_kv": 2}  # heads as wide together as the rows
FULL_ATTENTION = {f"attn_{name}.weight": (DIM, DIM) for name in ("q", "k", "v", "output")}
FULL_FUSED = matrix("attn_qkv", 3 * DIM) | matrix("attn_output", DIM)
VISUAL: Shapes = (
    matrix("vis_attn_qkv", 3 * DIM) | matrix("vis_attn_output", DIM)
    | matrix("vis_gate", FF) | matrix("vis_up", FF) | matrix("vis_down", DIM, FF)
)  # fmt: skip
TWO_SHARED = (
    matrix("ffn_gate_shexp", 2 * EXPERT_FF) | matrix("ffn_up_shexp", 2 * EXPERT_FF)
    | matrix("ffn_down_shexp", DIM, 2 * EXPERT_FF)
)  # fmt: skip
ADAPTERS, RANK_3 = 3, 4  # of Granite Switch, of which the prompt switches the second on
WIDTHS = {
    "attn_q": (HEADS * HEAD_DIM, DIM), "attn_k": (KV_HEADS * HEAD_DIM, DIM), "attn_v": (KV_HEADS * HEAD_DIM, DIM),
    "attn_output": (DIM, HEADS * HEAD_DIM), "ffn_gate": (FF, DIM), "ffn_up": (FF, DIM), "ffn_down": (DIM, FF),
}  # fmt: skip
LORA: Shapes = {f"{name}.lora_a": (ADAPTERS + 1, RANK_3, cols) for name, (_, cols) in WIDTHS.items()}
LORA |= {f"{name}.lora_b": (ADAPTERS + 1, rows, RANK_3) for name, (rows, _) in WIDTHS.items()}
PICTURES_END = 8196  # of Chameleon's ids of pictures
DRAWING = (
    matrix("token_embd", PICTURES_END + KEPT) | vector("output_norm") | matrix("output", PICTURES_END + KEPT)
    | layers(
        LAYERS, NORMS, FULL_ATTENTION, MLP,
        {f"attn_{x}_norm.{part}": (2, HEAD_DIM) for x in "qk" for part in ("weight", "bias")},
    )
)  # fmt: skip
ROWS = embedding(tiny.VOCAB)


CASES = {
    "scales": Case("llama", {}, ENDS | layers(LAYERS, NORMS, scaled(ATTENTION), scaled(MLP))),
    "scales-of-experts": Case(
        "qwen3moe", MOE, ENDS | layers(LAYERS, NORMS, HEAD_NORMS, scaled(ATTENTION), scaled(SPARSE))
    ),
    "arwkv7": Case(
        "arwkv7",
        {**RANKS, "embedding_length": DEEP, "attention.head_count": 2, "wkv.head_size": 64, "token_shift_count": 1},
        DEEP_ENDS | layers(LAYERS, vector("attn_norm", DEEP), vector("ffn_norm", DEEP), TIME_MIX, DEEP_MLP),
    ),
    "bailingmoe3": Case(
        "bailingmoe3",
        {
            **LING_3,
            "expert_group_count": 4,
            "expert_group_used_count": 2,
        },
        ENDS | mixed(NORMS) | each(lambda layer: LOW_RANK | GATE if layer == 2 else WHOLE_KDA),
    ),  # fmt: skip
    "bailingmoe3-limits": Case(
        "bailingmoe3",
        {
            **LING_3,
            "swiglu_clamp_exp": [0.0, 0.0, 0.4, 0.5],
            "swiglu_clamp_shexp": [0.3, 0.0, 0.5, 0.0],
            "expert_group_count": 4,
            "expert_group_used_count": 2,
        },
        ENDS | mixed(NORMS) | each(lambda layer: LOW_RANK | GATE if layer == 2 else WHOLE_KDA),
    ),  # fmt: skip
    "bailingmoe3-sees": Case(
        "bailingmoe3",
        {
            **LING_3,
            "rope.dimension_sections": [2, 1, 1, 0],
        },
        ENDS | mixed(NORMS) | each(lambda layer: LOW_RANK | GATE if layer == 2 else WHOLE_KDA),
    ),
    "cogvlm": Case("cogvlm", FULL, ENDS | layers(LAYERS, NORMS, FULL_FUSED, MLP, VISUAL)),
    "chameleon": Case("chameleon", FULL, DRAWING, first=PICTURES_END),
    "chameleon-34b": Case("chameleon", {**FULL, "swin_norm": True}, DRAWING, first=PICTURES_END),
    "cohere2moe": Case(
        "cohere2moe",
        {**WEIGHED, **WINDOWED, "logit_scale": 0.5, "leading_dense_block_count": 1},
        ENDS | mixed(vector("attn_norm"), ATTENTION, sparse=SPARSE | SHARED),
    ),
    "deepseek2-ocr": Case(
        "deepseek2-ocr",
        {**MOE, **FULL, "expert_shared_count": 2, "leading_dense_block_count": 1},
        ENDS | mixed(NORMS, FULL_ATTENTION, sparse=SPARSE | TWO_SHARED),
    ),
    "deepseek32": Case("deepseek32", SPARSE_MLA, ENDS | mixed(NORMS, INDEXED)),
    "deepseek32-picks": Case("deepseek32", SPARSE_MLA | PICKS, ENDS | mixed(NORMS, INDEXED)),
    "deepseek4": Case("deepseek4", POOLED, POOLED_SHAPES, length=260),
    "deepseek4-picks": Case("deepseek4", POOLED | YARN | PICKS, POOLED_SHAPES, length=150),
    "dots3note": Case("dots3note", NOTED, NOTE_SHAPES),
    "dots3note-picks": Case("dots3note", NOTED | PICKS, NOTE_SHAPES),
    "glm-dsa": Case("glm-dsa", SPARSE_MLA, ENDS | mixed(NORMS, INDEXED)),
    "glm-dsa-picks": Case(
        "glm-dsa",
        SPARSE_MLA | PICKS | {"attention.indexer.types": [True, False, True, False]},
        ENDS | mixed(NORMS, LOW_RANK) | each(lambda layer: {} if layer % 2 else INDEXER),
    ),
    "graniteswitch": Case(
        "graniteswitch",
        {
            "logit_scale": 2.0,
            "residual_scale": 0.5,
            "embedding_scale": 3.0,
            "adapters.count": ADAPTERS,
            "adapters.lora_rank": RANK_3,
            "adapters.token_ids_activate": [20, PROMPT[7], 21],
            "adapters.token_ids_substitute": [30, 31, 32],
        },
        ENDS | layers(LAYERS, NORMS, FUSED, MLP, LORA),
    ),
    "glm4-sees": Case(
        "glm4",
        {"rope.dimension_count": 8, "rope.dimension_sections": [2, 1, 1, 0]},
        ENDS | layers(LAYERS, NORMS, GLIMMER_NORMS, ATTENTION, UP_TWICE),
    ),
    "glm5-next": Case(
        "glm5-next",
        UNTURNED,
        ENDS
        | mixed(NORMS, MIXED_STREAMS)
        | each(lambda layer: STILL | POOLS if layer == 2 else KDA | {"ssm_a": (HEADS,)}),
    ),
    "glm5-next-picks": Case(
        "glm5-next",
        UNTURNED
        | PICKS
        | {"attention.head_count_kv": [1, 0, 1, 0], "attention.indexer.types": [True, False, False, False]},
        ENDS
        | mixed(NORMS, MIXED_STREAMS)
        | each(lambda layer: KDA | {"ssm_a": (HEADS,)} if layer % 2 else STILL | ({} if layer else POOLS)),
    ),
    "grovemoe": Case(
        "grovemoe",
        {**MOE, "experts_per_group": 2, "expert_chunk_feed_forward_length": 8, "expert_group_scale": 0.0},
        ENDS | layers(LAYERS, NORMS, HEAD_NORMS, ATTENTION, SPARSE, SMALL),
    ),
    "hrm_text": Case(
        "hrm_text",
        {"block_count": 12, "hrm.layers_per_stack": 2, "hrm.h_cycles": 2, "hrm.l_cycles": 2, "embedding_scale": 3.0},
        ROWS | matrix("output", tiny.VOCAB) | {"hrm.z_l_init": (DIM,)} | layers(LAYERS, ATTENTION, WIDE_GATE, MLP),
    ),
    "hy_v3": Case("hy_v3", WEIGHED, ENDS | mixed(NORMS, HEAD_NORMS, ATTENTION, sparse=SPARSE | SHARED | BARE_BIAS)),
    "hy_v4": Case("hy_v4", STREAMED, ENDS | STREAM_HEAD | mixed(NORMS, STREAMS, SUNK)),
    "hy_v4-picks": Case(
        "hy_v4",
        STREAMED
        | PICKS
        | {
            "attention.indexer.head_count": 64,
            "attention.indexer.key_length": 128,
            "attention.indexer.types": [True, False, False, True],
            "swiglu_clamp_exp": [0.6, 0.7, 0.8, 7.0],
        },
        ENDS | STREAM_HEAD | mixed(NORMS, STREAMS, SUNK) | each(lambda layer: {} if layer in (1, 2) else INDEXER),
    ),
    "kimi-linear": Case(
        "kimi-linear",
        {
            **WEIGHED,
            **MLA,
            "ssm.conv_kernel": 4,
            "kda.head_dim": SIZE,
            "attention.head_count_kv": [0, 0, 1, 0],
            "leading_dense_block_count": 1,
        },
        ENDS | mixed(NORMS) | each(lambda layer: MLA_ATTENTION if layer == 2 else KDA),
    ),  # fmt: skip
    "kimi-k3": Case(
        "kimi-k3",
        {
            **WEIGHED,
            **MLA,
            "attention.q_lora_rank": 24,
            "ssm.conv_kernel": 4,
            "kda.head_dim": SIZE,
            "kda.gate_lower_bound": -0.5,
            "attention.head_count_kv": [0, 0, 1, 0],
            "leading_dense_block_count": 1,
            "attn_res.block_size": 2,
            "activation.situ_beta": 4.0,
            "activation.situ_linear_beta": 1.0,
            "expert_latent_length": 16,
        },
        ENDS
        | vector("output_res_score")
        | mixed(NORMS, RES_SCORES, sparse=LATENT_SPARSE | SHARED)
        | each(lambda layer: LOW_RANK | WIDE_GATE if layer == 2 else FULL_GATE_KDA),
    ),  # fmt: skip
    "laguna": Case(
        "laguna",
        {
            **WEIGHED,
            **WINDOWED,
            **YARN,
            "rope.freq_base_swa": 100.0,
            "rope.dimension_count_swa": 8,
            "leading_dense_block_count": 1,
            "expert_shared_feed_forward_length": EXPERT_FF,
        },
        ENDS | mixed(NORMS, HEAD_NORMS, ATTENTION, GATE),
    ),  # fmt: skip
    "maple": Case(
        "maple",
        {**MOE, **PATTERN, "swiglu_clamp_exp": [0.6, 0.7, 0.8, 7.0]},
        ENDS | layers(LAYERS, NORMS, HEAD_NORMS, ATTENTION, SPARSE),
    ),
    "minimax-01": Case(
        "minimax-01",
        {
            **MOE,
            "residual_scale": 1.5,
            "feed_forward_length": EXPERT_FF,
            "rope.dimension_count": 8,
            "full_attention_interval": 3,
        },
        ENDS | layers(LAYERS, NORMS, SPARSE) | each(lambda layer: ATTENTION if layer == 2 else LIGHTNING),
    ),
    "minimax-m3": Case("minimax-m3", IN_BLOCKS, BLOCK_SHAPES),
    "minimax-m3-picks": Case("minimax-m3", IN_BLOCKS | ONE_BLOCK, BLOCK_SHAPES, 1e-2, flash=True),
    "mimo2": Case(
        "mimo2",
        {**MOE, **PATTERN, **YARN, "attention.value_scale": 0.7, "rope.dimension_count": 8},
        ENDS | mixed(NORMS, ATTENTION, vector("attn_sinks", HEADS), sparse=ROUTED),
    ),
    "nanbeige": Case("nanbeige", {"num_loops": 2}, ENDS | layers(LAYERS, NORMS, ATTENTION, MLP)),
    "nanbeige-unnormed": Case(
        "nanbeige", {"num_loops": 2, "skip_loop_final_norm": True}, ENDS | layers(LAYERS, NORMS, ATTENTION, MLP)
    ),
    "plamo2": Case(
        "plamo2",
        {**SSM, "attention.head_count_kv": [0, KV_HEADS, 0, KV_HEADS]},
        ENDS | layers(LAYERS, NORMS, POST_NORMS, UP_TWICE) | each(lambda n: FUSED | EACH_NORMED if n % 2 else MAMBA),
    ),
    "plamo3": Case(
        "plamo3",
        {**WINDOWED, "attention.sliding_window_pattern": 2, "rope.freq_base_swa": 100.0},
        ENDS | layers(LAYERS, NORMS, POST_NORMS, HEAD_NORMS, FUSED, UP_TWICE),
    ),
    "muse-glimmer": Case(
        "muse-glimmer",
        {**PATTERN, "logit_scale": 2.0, "final_logit_softcapping": 3.0},
        ENDS | layers(LAYERS, NORMS, HEAD_NORMS, ATTENTION, MLP, WIDE_GATE, GLIMMER_NORMS),
    ),
    "rwkv6qwen2": Case(
        "rwkv6qwen2",
        {
            "embedding_length": DEEP,
            "attention.head_count": 0,
            "attention.head_count_kv": 2,
            "wkv.head_size": 32,
            "time_mix_extra_dim": RANK_7,
            "time_decay_extra_dim": RANK_7,
            "token_shift_count": 1,
        },
        DEEP_ENDS | layers(LAYERS, vector("attn_norm", DEEP), vector("ffn_norm", DEEP), LINEAR_MIX, DEEP_MLP),
    ),
    "spark2_5": Case("spark2_5", {**PATTERN, **YARN}, ENDS | layers(LAYERS, NORMS, ATTENTION, GATE, MLP), 5e-3),
    "talkie": Case(
        "talkie",
        {"logit_scale": 0.5},
        embedding(tiny.VOCAB)
        | matrix("output", tiny.VOCAB)
        | layers(LAYERS, ATTENTION, matrix("attn_q_norm", HEADS, 1), vector("layer_output_scale", 1), MLP),
    ),  # fmt: skip
    "step35": Case(
        "step35",
        {
            **WEIGHED,
            **PATTERN,
            "expert_shared_feed_forward_length": EXPERT_FF,
            "swiglu_clamp_exp": [0.0, 0.4, 0.0, 0.5],
            "swiglu_clamp_shexp": [0.6, 0.0, 0.5, 0.4],
        },
        ENDS | vector("rope_freqs", HEAD_DIM // 2) | mixed(NORMS, HEAD_NORMS, ATTENTION, GATE),
    ),  # fmt: skip
}
NARROW = {"attention.head_count": 2, "attention.head_count_kv": 1}
NARROW_FUSED = matrix("attn_qkv", 64) | matrix("attn_output", DIM)
T5 = {"attention.head_count_kv": HEADS, "attention.relative_buckets_count": 32, "attention.causal": False}
T5_LAYERS: Shapes = (
    ROWS | vector("enc.output_norm") | {"enc.blk.0.attn_rel_b.weight": (32, HEADS)}
    | {f"enc.{name}": shape for name, shape in layers(
        LAYERS, NORMS, matrix("ffn_up", FF), matrix("ffn_down", DIM, FF), matrix("attn_o", DIM, HEADS * HEAD_DIM),
        *(matrix(f"attn_{name}", HEADS * HEAD_DIM) for name in "qkv"),
    ).items()}
)  # fmt: skip
T5_MLP = matrix("ffn_up", FF) | matrix("ffn_down", DIM, FF)
T5_ATTENTION = matrix("attn_o", DIM, HEADS * HEAD_DIM) | {
    name: shape for part in "qkv" for name, shape in matrix(f"attn_{part}", HEADS * HEAD_DIM).items()
}
T5_CROSS: Shapes = vector("cross_attn_norm") | {f"cross_{name}": shape for name, shape in T5_ATTENTION.items()}
T5_DECODER: Shapes = vector("dec.output_norm") | {
    f"dec.{name}": shape for name, shape in layers(2, NORMS, T5_MLP, T5_ATTENTION, T5_CROSS).items()
}
T5_ANSWERS: dict[str, Any] = {
    **{name: value for name, value in T5.items() if name != "attention.causal"},
    **{"decoder_block_count": 2, "decoder_start_token_id": 3},
}
ANSWERS = {  # models that read a text and answer it
    "t5": Case("t5", T5_ANSWERS, T5_LAYERS | T5_DECODER | {"dec.blk.0.attn_rel_b.weight": (32, HEADS)}),
    "t5-untied": Case(
        "t5",
        T5_ANSWERS,
        T5_LAYERS
        | T5_DECODER
        | matrix("output", tiny.VOCAB)
        | {
            f"{part}.blk.{layer}.attn_rel_b.weight": (32, HEADS)  # UMT5 has them in each layer
            for part, count in (("enc", LAYERS), ("dec", 2))
            for layer in range(count)
        },
    ),
}
ENCODERS = {
    "eurobert": Case("eurobert", NARROW, ROWS | vector("output_norm") | layers(LAYERS, NORMS, GQA_QKV, MLP)),
    "llama-embed": Case(
        "llama-embed", {**NARROW, "attention.causal": False}, ENDS | layers(LAYERS, NORMS, GQA_QKV, MLP)
    ),
    "neo-bert": Case(
        "neo-bert", NARROW, ROWS | vector("enc.output_norm") | layers(LAYERS, NORMS, NARROW_FUSED, UP_TWICE)
    ),
    "t5encoder": Case("t5encoder", T5, T5_LAYERS),
    "t5encoder-gated": Case(
        "t5encoder", T5, T5_LAYERS | {f"enc.blk.{layer}.ffn_gate.weight": (FF, DIM) for layer in range(LAYERS)}, 1e-3
    ),
}


def keep(found: dict[str, np.ndarray]) -> None:
    """Put these golden numbers into decoders.json, a line for each case."""
    golden = json.loads(PAGE.read_text()) | {
        name: [float(f"{number:.6g}") for number in numbers.tolist()] for name, numbers in found.items()
    }
    lines = [
        f"{json.dumps(name)}: {json.dumps(golden[name], separators=(',', ':'))}"
        for name in CASES | ENCODERS | ANSWERS
        if name in golden
    ]
    PAGE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
