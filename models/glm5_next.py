"""GLM 5.3: Hunyuan 4's residual streams, which mix with each other as well; Kimi Linear's layers, with a bound to what
keys forget, and with attention to pools of positions that an indexer picks; experts whose activations are limited.

Sources: https://arxiv.org/abs/2512.24880, llama.cpp's glm5-next.  Layers that predict further tokens are left
out.
"""

from edgeinfer.errors import UnsupportedError
from edgeinfer.models import deepseek2, deepseek32, hy_v4, kimi_k3, kimi_linear, maple, step35
from edgeinfer.plan import Builder, Value

POOLING = ("indexer_compressor_gate", "indexer_compressor_ape")
LENGTH_EPS = 1e-6  # of Q and K in the delta rule, and of the indexer's norm


def forward(b: Builder) -> Value:
    c, count, limits = b.config, hy_v4.stream_count(b), step35.limits(b)
    x, seen = b.repeat(b.embed(), count), None
    for layer in b.layers(b.main_layers):
        h, weights, mixed = reading(b, x, "hc_attn", count)
        y, seen = attention(b, b.norm(h, "attn_norm"), layer, seen)
        y = b.linear(y, "attn_output", c.dim)
        x = b.add(mixed, b.mul(b.repeat(y, count), weights))
        h, weights, mixed = reading(b, x, "hc_ffn", count)
        y = feed_forward(b, b.norm(h, "ffn_norm"), *limits[layer])
        x = b.add(mixed, b.mul(b.repeat(y, count), weights))
    x = b.outputs(x)
    return b.unembed(b.norm(b.mix(x, b.fill(x, [1 / count] * count), count), "output_norm"))


def reading(b: Builder, x: Value, name: str, count: int) -> tuple[Value, Value, Value]:
    """What a branch reads, the weights of its outcome in the streams, and what that is added to."""
    sizes = (count, count, count * count)
    which = [float(i) for i, size in enumerate(sizes) for _ in range(size)]
    every = b.linear(b.norm(x), f"{name}_fn", sum(sizes))
    every = b.mul(every, b.pick(b.fill(x, which * 2), f"{name}_scale.weight", 3))
    every = b.plus(every, f"{name}_base.weight")
    turns = b.keys.integer("hyper_connection.sinkhorn_iterations", most=1000)
    eps = b.keys.number("hyper_connection.epsilon")
    first, second = (b.activate(b.split(every, start, count), "sigmoid") for start in (0, count))
    square = b.sinkhorn(b.split(every, 2 * count, count * count), count, turns, eps)
    into = b.join(*(b.split(square, stream, 1, count) for stream in range(count)))  # a row for each stream it gives
    return b.mix(x, hy_v4.above_zero(b, first), count), b.scale(second, 2.0), b.mix(x, into, count)


def attention(b: Builder, h: Value, layer: int, seen: Value | None) -> tuple[Value, Value | None]:
    """`seen`: the positions seen in the last layer that attends, and in this one."""
    if b.has("ssm_conv1d_q"):
        gate = kimi_linear.low_rank(b, h, "g")
        return kimi_linear.delta_attention(b, h, kimi_k3.decay(b, h), gate, LENGTH_EPS), seen
    key_dim, value_dim = (b.keys.integer(f"attention.{name}_length_mla") for name in ("key", "value"))
    vector = deepseek2.query_vector(b, h)
    q, seen = deepseek2.queries(b, vector, key_dim), picked(b, h, vector, layer, seen)
    rank, heads = b.keys.integer("attention.kv_lora_rank"), b.config.heads
    small = b.norm(b.linear(h, "attn_kv_a_mqa", rank), "attn_kv_a_norm")
    q = b.head_linear(q, "attn_k_b", heads, rank)
    y = b.attend(q, small, small, layer, scale=key_dim**-0.5, seen=seen)
    return b.head_linear(y, "attn_v_b", heads, value_dim), seen


def picked(b: Builder, h: Value, vector: Value, layer: int, before: Value | None) -> Value | None:
    """DeepSeek V3.2's, where not positions have keys but pools of them, which are means of those of their positions."""
    count, pool = (b.keys.integer(f"attention.indexer.{name}") for name in ("top_k", "kpool"))
    if not b.keys.flag("attention.indexer.kpool_select_tail", True):
        raise UnsupportedError("glm5-next: tokens that see nothing of the last, incomplete pool of positions")
    if not b.has("indexer.proj") or b.n_ctx <= count:
        b.ignore(*POOLING, *(f"indexer.{name}" for name in deepseek32.INDEXER))
        return before
    q, k, w = deepseek32.indexer_heads(b, h, vector, LENGTH_EPS)
    k = b.condense(k, b.linear(h, POOLING[0], k.width), POOLING[1], pool)
    return b.choose(b.rate(q, k, w, layer), count // pool, pool, pooled=True)


def feed_forward(b: Builder, h: Value, limit: float, shared_limit: float) -> Value:
    if not b.has("ffn_gate_inp"):
        return maple.dense(b, h, b.config.ff_dim, "", shared_limit)
    y = maple.experts(b, h, limit, b.router("sigmoid"))
    return b.add(y, maple.dense(b, h, b.expert_width() * b.keys.integer("expert_shared_count"), "_shexp", shared_limit))
