"""Cohere 2 with experts: Command-R's names, experts chosen by a sigmoid or a softmax, and before them dense layers."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "cohere2moe"
CLASSES = ("Cohere2MoeForCausalLM",)
DEFAULTS = {"tie_word_embeddings": True}
GATES = {"sigmoid": 2, "softmax": 3}  # the softmax is of the chosen experts alone
PERIOD = 4


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, norm="rms" if w.config.has("rms_norm_eps") else "layer")
    w.key("logit_scale", w.config.number("logit_scale", default=0.0625))
    width, dense = usual.ff_dim(w), usual.dense_layers(w)
    w.key("feed_forward_length", w.config.integer("prefix_dense_intermediate_size", default=width))
    w.key("leading_dense_block_count", dense)
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", windows(w, dense))
    count = usual.expert_keys(w)
    w.key("expert_feed_forward_length", width)
    gate = w.config.text("expert_selection_fn", default="softmax")
    if gate not in GATES:
        raise UnsupportedError(f"{w.config.where}: expert_selection_fn is {shown(gate)}, known are: {' '.join(GATES)}")
    w.key("expert_gating_func", GATES[gate])
    shared = w.config.integer("num_shared_experts", default=0)
    if shared and w.config.text("shared_expert_combination_strategy", default="average") != "average":
        raise UnsupportedError(f"{w.config.where}: shared experts are not averaged with the others, as {w.arch} has it")
    w.key("expert_shared_feed_forward_length", shared * width)
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, **usual.ATTENTION})
        usual.sparse(w, count)


def windows(w: Writer, dense: int) -> np.ndarray:
    """bool [layers]: which have a sliding window; where config.json does not say, no dense one and of the others all
    but each fourth.  GGUF's dense layers have RoPE in any case."""
    if dense and w.config.integer("prefix_dense_sliding_window_pattern", default=1) != 1:
        raise UnsupportedError(f"{w.config.where}: prefix_dense_sliding_window_pattern is not 1, as {w.arch} has it")
    layers = range(usual.layers(w))
    full = [layer < dense or (layer - dense + 1) % PERIOD == 0 for layer in layers]
    default = ["full_attention" if each else "sliding_attention" for each in full]
    kinds = w.config.texts("layer_types", count=len(layers), default=default)
    return np.array([kind == "sliding_attention" for kind in kinds])
