"""Qwen3-Next: gated delta networks, every fourth layer gated attention; experts and a shared expert.

Sources: https://qwen.ai/blog?id=qwen3-next, https://arxiv.org/abs/2412.06464.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    return layers(b, interleaved=True)


def layers(b: Builder, interleaved: bool) -> Value:
    """Also Qwen3.5, whose V heads come in another order."""
    count = b.main_layers
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers(count):
        c, h = b.config, b.norm(x, "attn_norm")
        if b.has("ssm_conv1d"):
            h = delta_net(b, h, interleaved)
        else:
            both = b.linear(h, "attn_q", 2 * c.heads * c.key_dim)  # of each head, Q and then its gate
            q, gate = (b.split(both, start, c.key_dim, 2 * c.key_dim) for start in (0, c.key_dim))
            k, v = b.linear(h, "attn_k", c.kv_heads * c.key_dim), b.linear(h, "attn_v", c.kv_heads * c.value_dim)
            q, k = b.head_norm(q, "attn_q_norm"), b.head_norm(k, "attn_k_norm")
            h = b.mul(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), b.activate(gate, "sigmoid"))
            h = b.linear(h, "attn_output", c.dim)
        x = b.add(x, h)
        x = b.add(x, b.moe(b.norm(x, "post_attention_norm"), "silu", normalise=True))
    return b.logits(x)


def delta_net(b: Builder, h: Value, interleaved: bool) -> Value:
    """A short convolution over Q, K and V, the delta rule with a decay for each head, a norm and a gate."""
    size, heads = b.keys.integer("ssm.state_size"), b.keys.integer("ssm.time_step_rank")
    groups, kernel = b.keys.integer("ssm.group_count"), b.keys.integer("ssm.conv_kernel")
    keys, values, share = groups * size, b.keys.integer("ssm.inner_size"), heads // groups
    mixed, z = b.linear(h, "attn_qkv", 2 * keys + values), b.linear(h, "attn_gate", values)
    mixed = b.activate(b.conv(mixed, "ssm_conv1d", kernel), "silu")
    v = b.split(mixed, 2 * keys, values)
    q, k = (b.l2_norm(b.split(mixed, start, keys), size, b.config.eps) for start in (0, keys))
    q, k = (b.repeat(y, share, size if interleaved else keys) for y in (b.scale(q, size**-0.5), k))
    beta, alpha = rates(b, h, heads, groups)
    decay = b.activate(b.times(b.activate(b.plus(alpha, "ssm_dt.bias"), "softplus"), "ssm_a"), "exp")
    learnt = b.mul(k, b.activate(beta, "sigmoid"))
    y = b.delta(q, learnt, v, b.repeat(decay, size, 1), b.mul(k, decay), b.scale(learnt, -1.0), heads)
    y = b.gated(z, b.norm(y, "ssm_norm", values // heads), "silu")
    return b.linear(y, "ssm_out", b.config.dim)


def rates(b: Builder, h: Value, heads: int, groups: int) -> tuple[Value, Value]:
    """How fast each head learns and forgets, from two matrices or from one that holds them group by group."""
    if b.has("ssm_beta"):
        return b.linear(h, "ssm_beta", heads), b.linear(h, "ssm_alpha", heads)
    share = heads // groups
    both = b.linear(h, "ssm_ba", 2 * heads)
    return b.split(both, 0, share, 2 * share), b.split(both, share, share, 2 * share)
