"""Gemma 3n: four residual streams of which one is computed and the others follow (AltUp), a low-rank branch beside
attention (Laurel), embeddings for each layer, sparse early feed-forwards, K and V shared by the last layers.

Sources: https://ai.google.dev/gemma/docs/gemma-3n, https://arxiv.org/abs/2301.13310, https://arxiv.org/abs/2411.07501.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope

STREAMS, OTHERS, LAUREL, PER_LAYER = 4, 3, 64, 256  # the others follow; rank of Laurel, width of a layer's embedding
OWN_KV, SPARSE = 20, 10  # layers with K and V of their own, and with sparse feed-forwards
DEVIATIONS = 1.6448533535003662  # 95 % of a normal distribution lie below
PERIOD, CAP = 5, 30.0


def forward(b: Builder) -> Value:
    c = b.config
    dim, window, local = c.dim, b.keys.integer("attention.sliding_window"), b.sliding(PERIOD)
    turns = {True: b.local_rope(), False: b.model_rope("halves")}
    x = b.embed(scale=dim**0.5)
    embedded = per_layer_embedding(b, x, PER_LAYER)
    x = b.join(x, as_long(b, b.head_linear(b.repeat(x, OTHERS), "altup_proj", OTHERS, dim), x))
    for layer in b.layers():
        predicted = b.linear(modalities(b, b.split(x, 0, dim)), "altup_predict_coef", STREAMS**2)
        predicted = b.add(b.mix(x, predicted, STREAMS), x)
        active = b.split(predicted, 0, dim)
        h = b.norm(active, "attn_norm")
        laurel = b.linear(b.linear(h, "laurel_l", LAUREL), "laurel_r", dim)
        laurel = b.add(b.norm(laurel, "laurel_post_norm"), h)
        h = attention(b, h, layer, turns[local[layer]], window if local[layer] else 0, local)
        h = b.add(b.norm(b.linear(h, "attn_output", dim), "post_attention_norm"), active)
        h = b.scale(b.add(h, laurel), 0.5**0.5)
        h = b.add(h, b.norm(feed_forward(b, b.norm(h, "ffn_norm"), layer < SPARSE), "post_ffw_norm"))
        news = b.add(h, b.scale(active, -1.0))
        corrections = b.mix(news, b.linear(modalities(b, h), "altup_correct_coef", STREAMS), 1)
        x = b.add(b.add(predicted, b.repeat(news, STREAMS)), corrections)
        first = b.linear(b.times(b.split(x, 0, dim), "altup_correct_scale.weight"), "inp_gate", PER_LAYER)
        first = b.gated(first, b.split(embedded, layer * PER_LAYER, PER_LAYER), "gelu")
        first = b.repeat(b.norm(b.linear(first, "proj", dim), "post_norm"), OTHERS)
        x = b.join(b.split(x, 0, dim), b.add(b.split(x, dim, OTHERS * dim), first))
    x, others = b.split(x, 0, dim), b.split(x, dim, OTHERS * dim)
    others = as_long(b, b.head_linear(others, "altup_unembd_proj", OTHERS, dim), x)
    for stream in range(OTHERS):
        x = b.add(x, b.split(others, stream * dim, dim))  # the norm after it makes the sum a mean
    return b.softcap(b.logits(b.scale(x, 1 / STREAMS)), b.keys.number("final_logit_softcapping", CAP))


def attention(b: Builder, h: Value, layer: int, turn: Rope, window: int, local: tuple[bool, ...]) -> Value:
    c, source = b.config, b.shared_kv(layer, OWN_KV, local)
    q = b.rope(b.head_norm(b.linear(h, "attn_q", c.heads * c.key_dim), "attn_q_norm"), turn)
    if source is not None:
        return b.attend(q, None, None, source, window, scale=1.0)
    k = b.rope(b.head_norm(b.linear(h, "attn_k", c.kv_heads * c.key_dim), "attn_k_norm"), turn)
    v = b.norm(b.linear(h, "attn_v", c.kv_heads * c.value_dim), None, c.value_dim)
    return b.attend(q, k, v, layer, window, scale=1.0)


def feed_forward(b: Builder, h: Value, sparse: bool) -> Value:
    gate, up = b.linear(h, "ffn_gate", b.config.ff_dim), b.linear(h, "ffn_up", b.config.ff_dim)
    return b.linear(b.gated(b.sparsify(gate, DEVIATIONS) if sparse else gate, up, "gelu"), "ffn_down", b.config.dim)


def modalities(b: Builder, x: Value) -> Value:
    """Of a stream, the numbers from which all of them are mixed."""
    h = b.scale(b.norm(x, "altup_router_norm"), 1 / b.config.dim)
    return b.activate(b.linear(h, "altup_router", STREAMS), "tanh")


def as_long(b: Builder, streams: Value, x: Value) -> Value:
    """Each stream, scaled to the length of x."""
    return b.mul(b.l2_norm(streams, x.width, 0.0), b.repeat(b.activate(b.dot(x, x), "sqrt"), OTHERS))


def per_layer_embedding(b: Builder, x: Value, width: int) -> Value:
    """Of all layers, side by side: the token's own, and a projection of its embedding."""
    whole = b.config.layers * width
    looked_up = b.embed("per_layer_token_embd", width**0.5, whole)
    projected = b.scale(b.linear(x, "per_layer_model_proj", whole), b.config.dim**-0.5)
    return b.scale(b.add(b.norm(projected, "per_layer_proj_norm", width), looked_up), 0.5**0.5)
