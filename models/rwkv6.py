"""RWKV 6, "Finch": a matrix for each head that decays as the input says, and mixing with the token before.

Source: https://arxiv.org/abs/2404.05892.
"""

from edgeinfer.plan import Builder, Value

GROUP_EPS = 64e-5  # of the norm of each head
MIXED = "wkvrg"  # decay, key, value, receptance, gate: in the order of the tensors' parts


def forward(b: Builder) -> Value:
    rescale = b.keys.integer("rescale_every_n_layers", 0, least=0)
    x = b.layer_norm(b.embed(), "token_embd_norm")
    for layer in b.layers():
        x = b.add(x, time_mix(b, b.layer_norm(x, "attn_norm")))
        x = b.add(x, channel_mix(b, b.layer_norm(x, "attn_norm_2")))
        if rescale and (layer + 1) % rescale == 0:
            x = b.scale(x, 0.5)
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))


def time_mix(b: Builder, h: Value) -> Value:
    dim, head = b.config.dim, b.keys.integer("wkv.head_size")
    inputs = mixed(b, h)
    r = b.linear(inputs["r"], "time_mix_receptance", dim)
    k, v = b.linear(inputs["k"], "time_mix_key", dim), b.linear(inputs["v"], "time_mix_value", dim)
    y = b.wkv(r, k, v, decay(b, inputs["w"]), "time_mix_first", dim // head)
    y = b.layer_norm(y, "time_mix_ln", head, GROUP_EPS)
    return b.linear(b.gated(b.linear(inputs["g"], "time_mix_gate", dim), y, "silu"), "time_mix_output", dim)


def mixed(b: Builder, h: Value) -> dict[str, Value]:
    """What each of MIXED is made of: the token, and as much of the one before it as the two together say."""
    dim, extra = b.config.dim, b.keys.integer("time_mix_extra_dim")
    back = b.add(b.shift(h), b.scale(h, -1.0))  # from the token to the one before it
    both = b.add(b.times(back, "time_mix_lerp_x.weight"), h)
    low = b.activate(b.linear(both, "time_mix_w1", len(MIXED) * extra), "tanh")
    steps = b.head_linear(low, "time_mix_w2", len(MIXED), dim)
    if b.has("time_mix_lerp_fused"):
        steps = b.plus(steps, "time_mix_lerp_fused.weight")
    inputs = {}
    for i, name in enumerate(MIXED):
        step = b.split(steps, i * dim, dim)
        step = step if b.has("time_mix_lerp_fused") else b.plus(step, f"time_mix_lerp_{name}.weight")
        inputs[name] = b.add(b.mul(step, back), h)
    return inputs


def decay(b: Builder, x: Value) -> Value:
    """Of each column of the keys: exp(-exp(w))."""
    w = b.activate(b.linear(x, "time_mix_decay_w1", b.keys.integer("time_decay_extra_dim")), "tanh")
    w = b.activate(b.linear(w, "time_mix_decay_w2", b.config.dim, bias="time_mix_decay"), "exp")
    return b.activate(b.scale(w, -1.0), "exp")


def channel_mix(b: Builder, h: Value) -> Value:
    dim = b.config.dim
    back = b.add(b.shift(h), b.scale(h, -1.0))
    k, r = (b.add(b.times(back, f"channel_mix_lerp_{name}.weight"), h) for name in "kr")
    k = b.activate(b.linear(k, "channel_mix_key", b.config.ff_dim), "relu2")
    r = b.activate(b.linear(r, "channel_mix_receptance", dim), "sigmoid")
    return b.mul(b.linear(k, "channel_mix_value", dim), r)
