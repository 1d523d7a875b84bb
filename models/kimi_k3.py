"""Kimi K3: Kimi Linear's layers with a gate on latent attention. Each branch reads a mix of all earlier blocks' outputs
and of what its own block has summed up so far; experts work in a smaller space, and every activation is limited.

Source: llama.cpp's kimi-k3.
"""

from edgeinfer.models import deepseek2, kimi_linear
from edgeinfer.plan import Builder, Value

Bank = list[tuple[Value, Value]]  # outputs of earlier blocks, as they are and normed


def forward(b: Builder) -> Value:
    block = b.keys.integer("attn_res.block_size", least=0)
    x, bank = b.embed(), Bank()
    for layer in b.layers():
        h = b.norm(mixed(b, x, bank, "attn_res_score"), "attn_norm")
        y = b.linear(attention(b, h, layer), "attn_output", b.config.dim)
        opens = block and layer % block == 0
        if opens:
            bank.append((x, b.norm(x)))
        x = y if opens else b.add(x, y)
        x = b.add(x, feed_forward(b, b.norm(mixed(b, x, bank, "ffn_res_score"), "ffn_norm")))
    return b.logits(mixed(b, x, bank, "output_res_score"))


def mixed(b: Builder, x: Value, bank: Bank, name: str) -> Value:
    """The sum of x and the bank, by the softmax of a score for each."""
    if not bank:
        b.ignore(name)
        return x
    every = [*bank, (x, b.norm(x))]
    scores = b.join(*(b.linear(normed, name, 1) for _, normed in every))
    return b.mix(b.join(*(y for y, _ in every)), b.softmax(scores), len(every))


def attention(b: Builder, h: Value, layer: int) -> Value:
    if b.has("ssm_conv1d_q"):
        gate = b.linear(h, "ssm_g", b.config.heads * b.keys.integer("kda.head_dim"))
        return kimi_linear.delta_attention(b, h, decay(b, h), gate)
    key_dim = b.keys.integer("attention.key_length_mla")
    y = deepseek2.latent(b, h, deepseek2.queries(b, deepseek2.query_vector(b, h), key_dim), None, layer, key_dim**-0.5)
    return b.mul(y, b.activate(b.linear(h, "attn_gate", y.width), "sigmoid")) if b.has("attn_gate") else y


def decay(b: Builder, h: Value) -> Value:
    """Kimi Linear's, or where keys forget no more than a bound: exp(bound * sigmoid(-a * (f(h) + dt)))."""
    if not b.keys.has("kda.gate_lower_bound"):
        return kimi_linear.decay(b, h)
    rate = b.times(b.plus(kimi_linear.low_rank(b, h, "f"), "ssm_dt.bias"), "ssm_a", b.config.heads)
    share = b.activate(b.scale(rate, -1.0), "sigmoid")
    return b.activate(b.scale(share, b.keys.number("kda.gate_lower_bound", least=-1e4)), "exp")


def feed_forward(b: Builder, h: Value) -> Value:
    if not b.has("ffn_gate_inp"):
        return dense(b, h, b.config.ff_dim, "")
    count, width, router = b.keys.integer("expert_count"), b.expert_width(), b.router("sigmoid")
    choice = b.route(b.linear(h, "ffn_gate_inp", count), router)
    latent = b.keys.integer("expert_latent_length", 0, least=0)
    small = b.linear(h, "ffn_routed_down", latent) if latent else h
    gate, up = (b.expert_linear(small, choice, f"ffn_{name}_exps", count, width) for name in ("gate", "up"))
    y = b.expert_linear(limited(b, gate, up), choice, "ffn_down_exps", count, small.width, each=True)
    y = b.mix(y, b.split(choice, router.used, router.used), router.used)
    y = b.norm(y, "ffn_routed_norm") if b.has("ffn_routed_norm") else y
    y = b.linear(y, "ffn_routed_up", b.config.dim) if latent else y
    if not b.has("ffn_gate_shexp"):
        return y
    return b.add(y, dense(b, h, width * b.keys.integer("expert_shared_count", 1), "_shexp"))


def dense(b: Builder, h: Value, width: int, ending: str) -> Value:
    gate, up = b.linear(h, f"ffn_gate{ending}", width), b.linear(h, f"ffn_up{ending}", width)
    return b.linear(limited(b, gate, up), f"ffn_down{ending}", b.config.dim)


def limited(b: Builder, gate: Value, up: Value) -> Value:
    """sigmoid(gate) * gate * up, the latter two within +-beta by tanh, each by its own."""
    beta, linear = (b.keys.number(f"activation.situ_{name}") for name in ("beta", "linear_beta"))
    return b.mul(b.mul(b.softcap(gate, beta), b.activate(gate, "sigmoid")), b.softcap(up, linear))
