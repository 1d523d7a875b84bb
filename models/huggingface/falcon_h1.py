"""Falcon-H1: attention and Mamba 2 side by side; the many scales go into the matrices."""

from collections.abc import Callable

import numpy as np

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import mamba2

ARCH = "falcon-h1"
CLASSES = ("FalconH1ForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.sizes(w)
    rope.write(w, usual.head_dim(w))
    inner = w.config.integer("mamba_d_ssm", default=w.config.integer("mamba_expand", default=2) * usual.dim(w))
    state, groups = w.config.integer("mamba_d_state"), w.config.integer("mamba_n_groups")
    heads = w.config.integer("mamba_n_heads")
    mamba2.keys(w, inner, state, heads, groups, w.config.integer("mamba_d_conv"))
    w.copy({"token_embd": "model.embed_tokens"}, scale(w, "embedding_multiplier"))
    w.copy({"output_norm": "model.final_layernorm"})
    output = "model.embed_tokens" if w.config.flag("tie_word_embeddings", default=False) else "lm_head"
    w.ignore("lm_head.weight")
    w.copy({"output": output}, scale(w, "lm_head_multiplier"))
    gate, down = (times(factor) for factor in w.config.numbers("mlp_multipliers", count=2, default=[1.0, 1.0]))
    into = w.config.number("attention_in_multiplier", default=1.0)
    for _ in w.layers(usual.layers(w)):
        w.copy({"attn_norm": "input_layernorm", "ffn_up": "feed_forward.up_proj"})
        w.put("ffn_norm", w.take("pre_ff_layernorm.weight"))
        w.copy({"ffn_gate": "feed_forward.gate_proj"}, gate)
        w.copy({"ffn_down": "feed_forward.down_proj"}, down)
        w.copy({"attn_q": "self_attn.q_proj", "attn_v": "self_attn.v_proj"}, times(into))
        w.copy({"attn_k": "self_attn.k_proj"}, times(into * w.config.number("key_multiplier", default=1.0)))
        w.copy({"attn_output": "self_attn.o_proj"}, scale(w, "attention_out_multiplier"))
        w.copy({"ssm_out": "mamba.out_proj"}, scale(w, "ssm_out_multiplier"))
        mixer_input(w, [inner, inner, groups * state, groups * state, heads])
        mamba2.mixer(w, "mamba")


def mixer_input(w: Writer, sizes: list[int]) -> None:
    """The matrix that makes z, x, b, c and dt, each with a scale of its own."""
    common = w.config.number("ssm_in_multiplier", default=1.0)
    factors = w.config.numbers("ssm_multipliers", count=5, default=[1.0] * 5)
    parts = np.split(w.take("mamba.in_proj.weight"), np.cumsum(sizes)[:-1])
    w.put("ssm_in.weight", *parts, change=[times(common * factor) for factor in factors])


def scale(w: Writer, name: str) -> Callable[[np.ndarray], np.ndarray]:
    return times(w.config.number(name, default=1.0))


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x * np.float32(factor)
