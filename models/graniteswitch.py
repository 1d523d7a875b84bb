"""Granite Switch: Granite whose matrices have low-rank matrices of adapters beside them, of which a token of the text
switches one on, for itself and all that follow.  Such a token is embedded as another.

Source: llama.cpp's granite-switch.  An attention whose keys say only whether a token switches finds the adapter.
"""

from edgeinfer.errors import FormatError
from edgeinfer.plan import Builder, Value

GAIN = 15.0  # of the keys, where the file does not say


def forward(b: Builder) -> Value:
    c = b.config
    branch = b.keys.number("residual_scale", 1.0) or 1.0
    scale = b.keys.number("attention.scale", 0.0) or None
    rope = b.model_rope("adjacent") if b.keys.flag("rope.scaling.finetuned", True) else None
    switches, instead = switching(b)
    x = b.embed(scale=b.keys.number("embedding_scale", 1.0) or 1.0, instead=dict(zip(switches, instead, strict=True)))
    adapter = chosen(b, switches)
    q_width, kv_width = c.heads * c.key_dim, c.kv_heads * c.key_dim
    for layer in b.layers():
        h = b.norm(x, "attn_norm")
        q, k, v = (
            b.add(y, low_rank(b, h, adapter, f"attn_{name}", width))
            for y, name, width in zip(b.qkv(h), "qkv", (q_width, kv_width, kv_width), strict=True)
        )
        q, k = (b.rope(q, rope), b.rope(k, rope)) if rope else (q, k)
        h = adapted(b, b.attend(q, k, v, layer, scale=scale), adapter, "attn_output", c.dim)
        x = b.add(x, b.scale(h, branch))
        h = b.norm(x, "ffn_norm")
        gate, up = (adapted(b, h, adapter, f"ffn_{name}", b.config.ff_dim) for name in ("gate", "up"))
        h = adapted(b, b.gated(gate, up, "silu"), adapter, "ffn_down", c.dim)
        x = b.add(x, b.scale(h, branch))
    return b.scale(b.logits(x), 1 / b.keys.number("logit_scale"))


def switching(b: Builder) -> tuple[list[int], list[int]]:
    """The ids of the tokens that switch, adapter by adapter, and of those they are embedded as."""
    count = b.keys.integer("adapters.count", least=0)
    names = [f"{b.keys.arch}.adapters.token_ids_{kind}" for kind in ("activate", "substitute")]
    switches, instead = (b.keys.file.array(name, int).tolist() for name in names)
    if not len(switches) == len(instead) == count == len(set(switches)):
        raise FormatError(f"{names[0]} and {names[1]} must have {count} ids, one for each adapter")
    return switches, instead


def chosen(b: Builder, switches: list[int]) -> Value:
    """The adapter, 0 for none, as a choice among experts: a number, here half more so that the rest of it does not
    count, and its weight.  Of several that were switched on it is the mean."""
    gain = b.keys.number("adapters.router_gain", GAIN)
    keys = b.marks(dict.fromkeys(switches, gain), -gain)
    values = b.marks({id: slot + 1.5 for slot, id in enumerate(switches)}, 0.5)
    one = b.fill(keys, (1.0,))
    found = b.attend(b.repeat(one, b.config.heads), keys, values, b.config.layers, scale=1.0)
    return b.join(b.split(found, 0, 1), one)


def adapted(b: Builder, x: Value, adapter: Value, name: str, width: int) -> Value:
    return b.add(b.linear(x, name, width), low_rank(b, x, adapter, name, width))


def low_rank(b: Builder, x: Value, adapter: Value, name: str, width: int) -> Value:
    slots, rank = b.keys.integer("adapters.count", least=0) + 1, b.keys.integer("adapters.lora_rank")
    low = b.expert_linear(x, adapter, f"{name}.lora_a", slots, rank, ending="")
    return b.expert_linear(low, adapter, f"{name}.lora_b", slots, width, ending="")
