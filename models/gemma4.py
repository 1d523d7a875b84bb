"""Gemma 4: global layers with wider heads than the sliding-window ones, K and V shared by the last layers, embeddings
for each layer, and in some sizes experts beside the dense feed-forward.

Source: https://ai.google.dev/gemma/docs/core/model_card_4, and llama.cpp's gemma4 for what GGUF leaves unsaid.
"""

from edgeinfer.config import MAX_HEAD_DIM
from edgeinfer.models import gemma3n
from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    local, window = b.sliding(), b.keys.integer("attention.sliding_window")
    local_dim = b.keys.integer("attention.key_length_swa", most=MAX_HEAD_DIM)
    own = c.layers - b.keys.integer("attention.shared_kv_layers", 0, least=0, most=c.layers)
    global_rope, local_rope = b.model_rope("halves"), b.local_rope(local_dim)
    per_layer = b.keys.integer("embedding_length_per_layer_input", 0, least=0)
    x = b.embed(scale=c.dim**0.5)
    embedded = gemma3n.per_layer_embedding(b, x, per_layer) if per_layer else None
    for layer in b.layers():
        dim, turn = (local_dim, local_rope) if local[layer] else (c.key_dim, global_rope)
        h = b.norm(x, "attn_norm")
        q = b.rope(b.norm(b.linear(h, "attn_q", b.config.heads * dim), "attn_q_norm", dim), turn, dim)
        source = b.shared_kv(layer, own, local)
        if source is None:
            k, v = keys_values(b, h, dim)
            h = b.attend(q, b.rope(k, turn, dim), v, layer, window if local[layer] else 0, scale=1.0)
        else:
            h = b.attend(q, None, None, source, window if local[layer] else 0, scale=1.0)
        x = b.add(x, b.norm(b.linear(h, "attn_output", c.dim), "post_attention_norm"))
        x = b.add(x, b.norm(feed_forward(b, x), "post_ffw_norm"))
        if embedded is not None:
            own_part = b.split(embedded, layer * per_layer, per_layer)
            h = b.gated(b.linear(x, "inp_gate", per_layer), own_part, "gelu")
            x = b.add(x, b.norm(b.linear(h, "proj", c.dim), "post_norm"))
        x = b.times(x, "layer_output_scale.weight") if b.has("layer_output_scale") else x
    return b.softcap(b.logits(x), b.keys.number("final_logit_softcapping", 0.0))


def keys_values(b: Builder, h: Value, dim: int) -> tuple[Value, Value]:
    """K and V, normed; where there is no matrix for V it is K before its norm."""
    width = b.config.kv_heads * dim
    k = b.linear(h, "attn_k", width)
    v = b.linear(h, "attn_v", width) if b.has("attn_v") else k
    return b.norm(k, "attn_k_norm", dim), b.norm(v, None, dim)


def feed_forward(b: Builder, x: Value) -> Value:
    """The dense one, and where there are experts they beside it, each with norms of its own."""
    dense = b.gated_mlp(b.norm(x, "ffn_norm"), "gelu")
    if not b.has("ffn_gate_inp"):
        return dense
    scores = b.times(b.scale(b.norm(x), b.config.dim**-0.5), "ffn_gate_inp.scale")
    scores = b.linear(scores, "ffn_gate_inp", b.keys.integer("expert_count"))
    h = b.experts(b.norm(x, "pre_ffw_norm_2"), "gelu", b.expert_width(), b.router(normalise=True), scores)
    return b.add(b.norm(dense, "post_ffw_norm_1"), b.norm(h, "post_ffw_norm_2"))
