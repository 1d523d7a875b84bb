"""MiMo V2: the usual names and sinks; layers with a window have KV heads and a RoPE of their own."""

import numpy as np

from edgeinfer.config import MAX_HEADS
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import dots1

ARCH = "mimo2"
CLASSES = ("MiMoV2FlashForCausalLM",)
SHARE = 0.334  # of a head that turns
PERIOD = 6  # the first layer and the last of each six have no window


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, share=SHARE)
    rope.write_local(w, usual.head_dim(w), w.config.number("partial_rotary_factor", default=SHARE))
    local, few = windows(w), usual.kv_heads(w)
    many = w.config.integer("swa_num_key_value_heads", default=2 * few, most=MAX_HEADS)
    w.key("attention.head_count_kv", np.where(local, many, few).astype(np.int32))
    w.key("attention.value_length", w.config.integer("v_head_dim"))
    w.key("attention.value_scale", w.config.number("attention_value_scale"))
    size = w.config.integer("sliding_window_size", default=w.config.integer("sliding_window") - 1)
    w.key("attention.sliding_window", size + 1)  # the former goes without the token that looks
    w.key("attention.sliding_window_pattern", local)
    dots1.layers(w, usual.NORMS)
    for _ in w.layers(usual.layers(w)):
        if w.has("self_attn.attention_sink_bias"):
            w.put("attn_sinks.weight", w.take("self_attn.attention_sink_bias"))


def windows(w: Writer) -> np.ndarray:
    """bool [layers]"""
    if w.config.has("hybrid_layer_pattern"):
        return np.array([one != 0 for one in w.config.numbers("hybrid_layer_pattern", count=usual.layers(w))])
    local = usual.windows(w, PERIOD)
    local[0] &= w.config.has("layer_types")
    return local
