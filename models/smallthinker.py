"""SmallThinker: the router reads the layer's input, so that experts can be fetched while attention runs; ReLU experts.

Source: https://arxiv.org/abs/2507.20984.  With windows, every fourth layer, from the first on, is without positions
and, unless the file says otherwise, global.  The window is the file's, which comes from the authors' configuration;
llama.cpp takes 4096 for any, as the one published model with windows has.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4


def forward(b: Builder) -> Value:
    c = b.config
    window = b.keys.integer("attention.sliding_window", 0, least=0)
    experts = b.keys.integer("expert_count")
    local = b.sliding(PERIOD, first=True) if window else (False,) * c.layers
    global_rope, local_rope = b.model_rope("halves"), b.model_rope("halves", local=True)
    x = b.embed()
    for layer in b.layers():
        scores = b.linear(x, "ffn_gate_inp", experts)
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        if layer % PERIOD or not window:
            turn = local_rope if local[layer] else global_rope
            q, k = b.rope(q, turn), b.rope(k, turn)
        h = b.attend(q, k, v, layer, window if local[layer] else 0)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        router = b.router(normalise=True)
        x = b.add(x, b.experts(b.norm(x, "ffn_norm"), "relu", b.expert_width(), router, scores))
    return b.logits(x)
