"""dots.note: latent attention with a norm of the part of K that turns and a gate on each head; layers with sliding
windows, which have sizes of their own, and layers that attend to the positions an indexer picks; experts by a sigmoid
with a bias for the choice and a shared one.

Source: llama.cpp's dots3note.  The last layers predict further tokens and are left out.
"""

import dataclasses
from typing import Any

from edgeinfer.models import deepseek2, deepseek32
from edgeinfer.plan import Builder, Value
from edgeinfer.rope import Rope


def forward(b: Builder) -> Value:
    c, window = b.config, b.keys.integer("attention.sliding_window")
    local = b.sliding()
    rope, near = (b.model_rope("adjacent", local=swa) for swa in (False, True))
    turn, seen = dataclasses.replace(rope, pairs="halves"), None
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = b.norm(x, "attn_norm")
        vector = deepseek2.query_vector(b, h)
        if local[layer]:
            y = attention(b, h, vector, near, "_swa", layer=layer, window=window)
        else:
            seen = deepseek32.picked(b, h, vector, turn, layer, seen)
            y = attention(b, h, vector, rope, "", layer=layer, seen=seen)
        y = b.mul(y, b.activate(b.linear(h, "attn_gate", b.config.heads), "sigmoid"))
        x = b.add(x, b.linear(y, "attn_output", c.dim))
        x = b.add(x, b.moe(b.norm(x, "ffn_norm"), "silu", "sigmoid"))
    return b.logits(x)


def attention(b: Builder, h: Value, vector: Value, rope: Rope, ending: str, **how: Any) -> Value:
    """`ending`: of the keys with the layer's sizes."""
    names = ("kv_lora_rank", "key_length_mla", "value_length_mla")
    rank, key_dim, value_dim = (b.keys.integer(f"attention.{name}{ending}") for name in names)
    turning = b.config.rope_dim
    q = b.rope(deepseek2.queries(b, vector, key_dim), rope, key_dim, key_dim - turning)
    both = b.linear(h, "attn_kv_a_mqa", rank + turning)
    turned = b.rope(b.norm(b.split(both, rank, turning), "attn_k_norm"), rope, turning)
    small = b.norm(b.split(both, 0, rank), "attn_kv_a_norm")
    return deepseek2.absorbed(b, q, small, turned, value_dim, scale=key_dim**-0.5, **how)
