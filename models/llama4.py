"""Llama 4 and MobileLLM: in three of four layers RoPE within chunks of 8192 positions, in the fourth none, with queries
that grow with their position; experts read an input already weighed by the router.

Source: https://ai.meta.com/blog/llama-4-multimodal-intelligence/.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import PLAIN, Scores
from edgeinfer.verbs.experts import Router

PERIOD = 4
CHUNK = 8192  # tokens; queries of layers without positions grow by its multiples too
GROWTH = 0.1
EXPERTS_OF_MAVERICK = 128  # the one size whose Q and K are not normed


def forward(b: Builder) -> Value:
    c = b.config
    chunked = not b.keys.has("attention.sliding_window") or b.keys.integer("attention.sliding_window", least=0) > 0
    normed = b.keys.integer("expert_count", 0, least=0) != EXPERTS_OF_MAVERICK
    local = b.sliding(PERIOD) if chunked else (False,) * c.layers
    global_rope, local_rope = b.model_rope("adjacent"), b.model_rope("adjacent", local=True)
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        turned = not chunked or (layer + 1) % PERIOD != 0
        if turned:
            turn = local_rope if local[layer] else global_rope
            q, k = b.rope(q, turn), b.rope(k, turn)
            q, k = (b.norm(y, None, c.key_dim) for y in (q, k)) if normed else (q, k)
        else:
            q = b.temper(q, GROWTH, CHUNK, offset=1)
        scores = Scores(chunk=CHUNK) if local[layer] else PLAIN
        x = b.add(x, b.linear(b.attend(q, k, v, layer, scores=scores), "attn_output", c.dim))
        h = b.norm(x, "ffn_norm")
        x = b.add(x, experts(b, h) if b.has("ffn_gate_inp") else b.gated_mlp(h, "silu"))
    return b.logits(x)


def experts(b: Builder, h: Value) -> Value:
    """The sum of the chosen experts, each of h times its weight, and the shared expert."""
    count, stated, dim, width = b.keys.integer("expert_count"), b.router(), b.config.dim, b.expert_width()
    used, router = stated.used, Router(stated.used, "sigmoid", groups=stated.groups, groups_used=stated.groups_used)
    choice = b.route(b.linear(h, "ffn_gate_inp", count), router)
    weighed = b.mix(h, b.split(choice, used, used), 1)
    gate = b.expert_linear(weighed, choice, "ffn_gate_exps", count, width, each=True)
    up = b.expert_linear(weighed, choice, "ffn_up_exps", count, width, each=True)
    down = b.expert_linear(b.gated(gate, up, "silu"), choice, "ffn_down_exps", count, dim, each=True)
    y = b.gated_mlp(h, "silu", width, "_shexp")
    for expert in range(used):
        y = b.add(y, b.split(down, expert * dim, dim))
    return y
