"""Step 3.5, and the text part of Step 3.7: norm weights are what is to be added to 1; heads and bases differ between
layers with a window and without."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.config import Config
from edgeinfer.huggingface.writer import Writer

ARCH = "step35"
CLASSES = ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration")
NORMS = {**usual.NORMS, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
LAYER = {
    **usual.ATTENTION,
    **usual.MLP,
    "attn_gate": "self_attn.g_proj",
    "ffn_gate_inp": "moe.gate",
    **{f"{name}_exps": f"moe.{name[4:]}_proj" for name in usual.MLP},
    **{f"{name}_shexp": f"share_expert.{name[4:]}_proj" for name in usual.MLP},
}
LIMITS = {"swiglu_clamp_exp": "swiglu_limits", "swiglu_clamp_shexp": "swiglu_limits_shared"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    count, size = usual.layers(w), usual.head_dim(w)
    kinds = cut(w, "layer_types").texts("layer_types", count=count)
    gather(w, kinds)
    usual.sizes(w)
    rope.write(w, size, pairs=size // 2)
    if w.pairs[f"{w.arch}.rope.dimension_count"] != size // 2:
        raise UnsupportedError(f"{w.config.where}: {w.arch} turns half of a head in layers without a window")
    w.key("rope.dimension_count", size)
    rope.write_local(w, size)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", np.array([kind == "sliding_attention" for kind in kinds]))
    w.copy({"output_norm": "model.norm"}, usual.one_more)
    usual.head(w)
    usual.routed(w)
    w.key("expert_shared_feed_forward_length", w.config.integer("share_expert_dim"))
    w.key("expert_weights_norm", True)
    w.key("expert_weights_scale", w.config.number("moe_router_scaling_factor", default=1.0))
    for name, source in LIMITS.items():
        limits(w, name, source)
    heads = np.zeros((2, count), np.int32)
    for layer in w.layers(count):
        w.copy(NORMS, usual.one_more)
        w.copy(LAYER)
        if w.has("moe.router_bias"):
            w.put("exp_probs_b.bias", w.take("moe.router_bias"))
        heads[:, layer] = [len(w.take(f"self_attn.{name}.weight")) for name in ("g_proj", "k_proj")]
    w.key("attention.head_count", heads[0])
    w.key("attention.head_count_kv", heads[1] // size)


def cut(w: Writer, name: str) -> Config:
    """A list of config.json's without the layers that predict further tokens, and with 0 for null."""
    found = w.config.get(name)
    cut = [each or 0 for each in found[: usual.layers(w)]] if isinstance(found, list) else found
    return Config({name: cut}, w.config.where)


def limits(w: Writer, name: str, source: str) -> None:
    """Of activations in each layer, 0 where there is none."""
    if w.config.get(source, default=[]):
        w.key(name, np.array(cut(w, source).numbers(source, count=usual.layers(w)), np.float32))


def gather(w: Writer, kinds: list[str]) -> None:
    """RoPE's numbers by kind of layer, where config.json has them by layer."""
    if isinstance(w.config.get("rope_theta", default=0.0), list):
        bases, shares = (
            cut(w, name).numbers(name, count=len(kinds)) for name in ("rope_theta", "partial_rotary_factors")
        )
        found = {kind: {"rope_theta": bases[at], "partial_rotary_factor": shares[at]} for at, kind in enumerate(kinds)}
        w.config.values["rope_parameters"] = found
