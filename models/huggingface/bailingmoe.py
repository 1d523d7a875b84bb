"""Ling Lite and Ling Plus: names of its own, and fused Q, K and V; GGUF's RoPE turns adjacent pairs."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import bailingmoe3

ARCH = "bailingmoe"
CLASSES = ("BailingMoeForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    if w.config.flag("norm_head", default=False):
        raise UnsupportedError(f"{w.config.where}: norm_head is true, rows of the output matrix are to have length 1")
    usual.begin(w, model=bailingmoe3.MODEL)
    w.key("leading_dense_block_count", usual.dense_layers(w))
    count = usual.expert_keys(w)
    heads, kv_heads = usual.heads(w), usual.kv_heads(w)
    for _ in w.layers(usual.layers(w)):
        w.copy({**usual.NORMS, "attn_output": "attention.dense"})
        for ending in ("weight", "bias"):
            if w.has(f"attention.query_key_value.{ending}"):
                rows = w.take(f"attention.query_key_value.{ending}")
                q, k = heads * usual.head_dim(w), kv_heads * usual.head_dim(w)
                w.put(f"attn_q.{ending}", usual.adjacent(rows[:q], heads), shape=rows[:q].shape)
                w.put(f"attn_k.{ending}", usual.adjacent(rows[q : q + k], kv_heads), shape=rows[q : q + k].shape)
                w.put(f"attn_v.{ending}", rows[q + k :])
        usual.sparse(w, count)
