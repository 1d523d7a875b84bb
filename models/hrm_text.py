"""HRM-Text: two stacks of layers, a low one that is passed several times for each pass of the high one, every time with
keys and values of its own; each reads the sum of what both made last.  Gated attention, norms without weights.

Source: https://arxiv.org/abs/2506.21734.  The file counts a layer for every pass.
"""

import warnings

from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope
from edgeinfer.verbs.tracer import expect


def forward(b: Builder) -> Value:
    size, times, turns = (b.keys.integer(f"hrm.{key}") for key in ("layers_per_stack", "h_cycles", "l_cycles"))
    expect(size * times * (turns + 1) == b.config.layers, f"{b.config.layers} layers of {times} x {turns + 1} x {size}")
    if b.keys.flag("hrm.prefix_lm", False):
        warnings.warn(
            "hrm_text: made to see a whole prompt at once; here each token sees those before it", stacklevel=2
        )
    rope = b.model_rope("halves")
    high = b.embed(scale=b.keys.number("embedding_scale", 1.0) or 1.0)
    low: Value | None = None
    for first in range(0, b.config.layers, size):
        both = b.plus(high, "hrm.z_l_init") if low is None else b.add(high, low)
        if first // size % (turns + 1) < turns:
            low = stack(b, both, rope, 0, first, size)
        else:
            high = stack(b, both, rope, size, first, size)
    return b.unembed(b.outputs(high))


def stack(b: Builder, x: Value, rope: Rope, place: int, first: int, size: int) -> Value:
    """Of `size` layers, blocks `place`.. of the file, with keys and values `first`.. ."""
    c = b.config
    for block in b.blocks(range(place, place + size)):
        h = b.norm(x)
        q, k, v = b.qkv(h)
        y = b.attend(b.rope(q, rope), b.rope(k, rope), v, first + block - place)
        y = b.mul(y, b.activate(b.linear(h, "attn_gate", c.heads * c.key_dim), "sigmoid"))
        x = b.add(x, b.linear(y, "attn_output", c.dim))
        x = b.add(x, b.gated_mlp(b.norm(x), "silu"))
    return b.norm(x)
