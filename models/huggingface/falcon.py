"""Falcon: Q of the heads that share a K and V, then these, group after group; in the 7B one group."""

import numpy as np

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "falcon"
CLASSES = ("FalconForCausalLM",)
MODEL = {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f", "output": "lm_head"}
LAYER = {
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
ONE_NORM, TWO_NORMS = {"attn_norm": "input_layernorm"}, {"attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"}


def write(w: Writer) -> None:
    if w.config.flag("alibi", default=False) or not w.config.flag("parallel_attn", default=True):
        raise UnsupportedError(f"{w.config.where}: alibi or sequential attention, which {w.arch} has not")
    usual.expect_activation(w, "gelu")
    groups = kv_heads(w)
    usual.begin(w, norm="layer", model=MODEL)
    w.key("attention.head_count_kv", groups)
    w.key("feed_forward_length", w.config.integer("ffn_hidden_size", default=4 * usual.dim(w)))
    for _ in w.layers(usual.layers(w), "transformer.h"):
        for ending in ("weight", "bias"):
            source = f"self_attention.query_key_value.{ending}"
            if w.has(source):
                w.put(f"attn_qkv.{ending}", *parts(w.take(source), groups, usual.heads(w) // groups))
        w.copy({**LAYER, **(TWO_NORMS if w.has("ln_attn.weight") else ONE_NORM)})


def kv_heads(w: Writer) -> int:
    if w.config.flag("new_decoder_architecture", default=False):
        return w.config.integer("num_kv_heads", "n_head_kv", default=usual.heads(w), least=1)
    return 1 if w.config.flag("multi_query", default=True) else usual.heads(w)


def parts(x: np.ndarray, groups: int, share: int) -> list[np.ndarray]:
    """All of Q, all of K, all of V: views of x for each group, `share` heads of Q and one of K and V in each."""
    grouped = x.reshape(groups, share + 2, len(x) // groups // (share + 2), *x.shape[1:])
    q = [group[:share].reshape(-1, *x.shape[1:]) for group in grouped]
    return [*q, *(group[share] for group in grouped), *(group[share + 1] for group in grouped)]
