"""GroveMoE: Qwen3-MoE whose experts come in groups, each group with a small expert of its own that is added for every
chosen expert of the group, weighed as that is.

Sources: https://arxiv.org/abs/2508.07785, https://github.com/inclusionAI/GroveMoE.  Unlike there, llama.cpp gives the
small experts what the others have made, and weighs each group by the expert that has the group's number.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.norm(x, "attn_norm"))
        q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer)
        x = b.add(x, b.linear(h, "attn_output", c.dim))
        x = b.add(x, feed_forward(b, b.norm(x, "ffn_norm")))
    return b.logits(x)


def feed_forward(b: Builder, h: Value) -> Value:
    count, size = b.keys.integer("expert_count"), b.keys.integer("experts_per_group")
    small = b.keys.integer("expert_chunk_feed_forward_length", b.config.key_dim)
    choice = b.route(b.linear(h, "ffn_gate_inp", count), b.router(normalise=True))
    large = b.chosen_experts(h, choice, "silu", b.expert_width(), count)
    added = b.chosen_experts(h, b.group(choice, count, size), "silu", small, count // size, "_chexps")
    return b.add(large, b.scale(added, b.keys.number("expert_group_scale")))
