"""BLOOM: Q, K and V of one head after the other."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "bloom"
CLASSES = ("BloomForCausalLM",)
PREFIX = "transformer."
MODEL = {
    "token_embd": "transformer.word_embeddings",
    "token_embd_norm": "transformer.word_embeddings_layernorm",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
LAYER = {
    **usual.NORMS,
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}


def write(w: Writer) -> None:
    if w.config.flag("apply_residual_connection_post_layernorm", default=False):
        raise UnsupportedError(f"{w.config.where}: apply_residual_connection_post_layernorm, which {w.arch} has not")
    usual.sizes(w, "layer")
    w.key("attention.head_count_kv", usual.heads(w))
    w.key("feed_forward_length", 4 * usual.dim(w))
    usual.head(w, MODEL)
    for _ in w.layers(usual.layers(w), "transformer.h"):
        for ending in ("weight", "bias"):
            x = w.take(f"self_attention.query_key_value.{ending}")
            w.put(f"attn_qkv.{ending}", usual.by_part(x, usual.heads(w)), shape=x.shape)
        w.copy(LAYER)
