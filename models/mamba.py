"""Mamba and Falcon-Mamba: selective state spaces and nothing else.

Sources: https://arxiv.org/abs/2312.00752; https://arxiv.org/abs/2410.05355 (norms of dt, b and c).
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    x = b.embed()
    for _ in b.layers():
        x = b.add(x, mixer(b, b.norm(x, "attn_norm")))
    return b.logits(x)


def mixer(b: Builder, h: Value) -> Value:
    """A short convolution, then a state space whose step and matrices depend on the input, gated."""
    inner, state = b.keys.integer("ssm.inner_size"), b.keys.integer("ssm.state_size")
    rank, kernel = b.keys.integer("ssm.time_step_rank"), b.keys.integer("ssm.conv_kernel")
    both = b.linear(h, "ssm_in", 2 * inner)
    x, z = b.split(both, 0, inner), b.split(both, inner, inner)
    x = b.activate(b.conv(x, "ssm_conv1d", kernel), "silu")
    parts = b.linear(x, "ssm_x", rank + 2 * state)
    dt, into, out = b.split(parts, 0, rank), b.split(parts, rank, state), b.split(parts, rank + state, state)
    if b.has("ssm_dt_norm"):
        dt, into, out = b.norm(dt, "ssm_dt_norm"), b.norm(into, "ssm_b_norm"), b.norm(out, "ssm_c_norm")
    elif b.keys.flag("ssm.dt_b_c_rms", False):
        dt, into, out = b.norm(dt), b.norm(into), b.norm(out)
    dt = b.activate(b.linear(dt, "ssm_dt", inner), "softplus")
    y = b.ssm(x, dt, into, out, state)
    return b.linear(b.gated(z, y, "silu"), "ssm_out", b.config.dim)
