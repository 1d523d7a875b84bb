"""SmallThinker: the router reads the layer's input, so that experts can be fetched while attention runs; ReLU experts.

Source: https://arxiv.org/abs/2507.20984.  With windows, every fourth layer, from the first on, is global and without
positions.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    experts = b.keys.integer("expert_count")
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        is_global = window > 0 and layer % PERIOD == 0
        scores = b.linear(x, "ffn_gate_inp", experts)
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        if not is_global:
            q, k = b.rope(q, rope), b.rope(k, rope)
        h = b.attend(q, k, v, layer, 0 if is_global else window)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        router = b.router(normalise=True)
        x = b.add(x, b.experts(b.norm(x, "ffn_norm"), "relu", b.expert_width(), router, scores))
    return b.logits(x)
