"""PLaMo 2: Mamba layers whose heads share one row each of B and C, and layers of attention; norms before and after each
branch.

Source: https://tech.preferred.jp/en/blog/plamo-2/.
"""

from edgeinfer.plan import Builder, Value

LEAST_RANK = 64  # of the step's matrix, else dim / 16


def forward(b: Builder) -> Value:
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        c, h = b.config, b.norm(x, "attn_norm")
        if c.kv_heads:
            q, k, v = b.qkv(h)
            q, k = b.norm(q, "attn_q_norm", c.key_dim), b.norm(k, "attn_k_norm", c.key_dim)
            h = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        else:
            h = mixer(b, h)
        x = b.add(x, b.times(b.norm(h), "post_attention_norm"))
        h = b.gated_mlp(b.norm(x, "ffn_norm"), "silu")
        x = b.add(x, b.times(b.norm(h), "post_ffw_norm"))
    return b.logits(x)


def mixer(b: Builder, h: Value) -> Value:
    """Mamba 2's state space; its step, B and C come from x as in Mamba 1, each normed."""
    dim, inner, state = b.config.dim, b.keys.integer("ssm.inner_size"), b.keys.integer("ssm.state_size")
    heads, kernel = b.keys.integer("ssm.time_step_rank"), b.keys.integer("ssm.conv_kernel")
    size, rank = inner // heads, max(LEAST_RANK, dim // 16)
    both = b.linear(h, "ssm_in", 2 * inner)  # of each head, the gate and then x
    z, x = (b.split(both, start, size, 2 * size) for start in (0, size))
    x = b.activate(b.conv(x, "ssm_conv1d", kernel), "silu")
    rows = b.linear(x, "ssm_x", 2 * state + rank)
    into, out, dt = (b.split(rows, start, width) for start, width in ((0, state), (state, state), (2 * state, rank)))
    into, out, dt = (b.times(b.norm(y), f"ssm_{name}_norm") for y, name in ((into, "b"), (out, "c"), (dt, "dt")))
    dt = b.activate(b.linear(dt, "ssm_dt", heads), "softplus")
    return b.linear(b.gated(z, b.ssm(x, dt, into, out, state), "silu"), "ssm_out", dim)
