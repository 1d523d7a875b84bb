"""Muse Glimmer, its text part: norms before and after each branch, whose weights are what is to be added to 1; GGUF has
the scale of Q as weights of a norm."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.muse_glimmer import POST_EPS

ARCH = "muse-glimmer"
CLASSES = ("MuseGlimmerForConditionalGeneration",)
LAYER = {**usual.ATTENTION, **usual.MLP, "attn_gate": "self_attn.gate_proj"}
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w)
    w.key("logit_scale", w.config.number("output_multiplier"))
    w.key("final_logit_softcapping", w.config.number("final_logit_softcapping"))
    local = windows(w)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", local)
    check(w, local)
    size, scale = usual.head_dim(w), w.config.number("qk_scale_factor")
    for _ in w.layers(len(local)):
        w.copy(usual.SANDWICH, usual.one_more)
        usual.turn(w)
        w.copy(LAYER)
        w.put("attn_q_norm.weight", np.full(size, scale, np.float32))
        w.put("attn_k_norm.weight", np.ones(size, np.float32))


def windows(w: Writer) -> np.ndarray:
    """bool [layers]: where config.json does not say, the last has none, nor has each fourth before it."""
    count = usual.layers(w)
    default = ["sliding_attention" if (count - 1 - layer) % PERIOD else "full_attention" for layer in range(count)]
    kinds = w.config.texts("layer_types", count=count, default=default)
    return np.array([kind == "sliding_attention" for kind in kinds])


def check(w: Writer, local: np.ndarray) -> None:
    base = rope.base(w.config)
    wanted = np.where(local, base, 0.0).tolist()
    if w.config.numbers("layer_rope_theta", count=len(local), default=wanted) != wanted:
        raise UnsupportedError(f"{w.config.where}: layer_rope_theta is not rope_theta with a window, 0 without")
    if rope.parameters(w.config).text("rope_type", default="default") != "default":
        raise UnsupportedError(f"{w.config.where}: positions are scaled, which {w.arch} has not")
    if w.config.number("post_norm_eps", default=POST_EPS) != POST_EPS:
        raise UnsupportedError(f"{w.config.where}: post_norm_eps is not {POST_EPS:g}, as {w.arch} has it")
