"""Mamba 2: state spaces with one decay for each head.  Source: https://arxiv.org/abs/2405.21060."""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    for _ in b.layers():
        x = b.add(x, mixer(b, b.norm(x, "attn_norm")))
    return b.logits(x)


def mixer(b: Builder, h: Value) -> Value:
    """A short convolution over x, b and c together, the state space, and a gate with a norm of each group."""
    inner, state = b.keys.integer("ssm.inner_size"), b.keys.integer("ssm.state_size")
    heads, kernel = b.keys.integer("ssm.time_step_rank"), b.keys.integer("ssm.conv_kernel")
    groups = b.keys.integer("ssm.group_count")
    side = groups * state
    whole = b.linear(h, "ssm_in", 2 * inner + 2 * side + heads)
    z, dt = b.split(whole, 0, inner), b.split(whole, 2 * inner + 2 * side, heads)
    mixed = b.activate(b.conv(b.split(whole, inner, inner + 2 * side), "ssm_conv1d", kernel), "silu")
    x, into, out = b.split(mixed, 0, inner), b.split(mixed, inner, side), b.split(mixed, inner + side, side)
    dt = b.activate(b.plus(dt, "ssm_dt.bias"), "softplus")
    y = b.gated(z, b.ssm(x, dt, into, out, state, groups), "silu")
    y = b.norm(y, "ssm_norm", inner // groups) if b.has("ssm_norm") else y
    return b.linear(y, "ssm_out", b.config.dim)
