"""EmbeddingGemma: Gemma 3 that looks both ways, and two linear layers behind the pooled row.

Source: https://arxiv.org/abs/2509.20354.  A local layer sees half the window of the file to each side.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import BOTH_WAYS

PERIOD = 6  # every sixth layer is global, unless the file says otherwise


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    local = b.sliding(PERIOD)
    global_rope, local_rope = b.model_rope("halves"), b.local_rope()
    x = b.embed(scale=c.dim**0.5)
    for layer in b.layers():
        is_local = window > 0 and local[layer]
        turn = local_rope if is_local else global_rope
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        reach = window // 2 + 1 if is_local else 0
        h = b.attend(b.rope(q, turn), b.rope(k, turn), v, layer, reach, scores=BOTH_WAYS)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(b.gated_mlp(b.norm(x, "ffn_norm"), "gelu"), "post_ffw_norm"))
    return b.norm(x, "output_norm")


def project(b: Builder, row: Value) -> Value:
    """The two layers are in files that were made with them."""
    if b.has("dense_2"):
        row = b.linear(row, "dense_2", b.keys.integer("dense_2_feat_out"))
    return b.linear(row, "dense_3", b.config.dim) if b.has("dense_3") else row
