"""Jina Embeddings v3: XLM-R with rotary positions.  The adapters of its tasks are files of their own, not read here.

Source: https://arxiv.org/abs/2409.10173.
"""

from edgeinfer.plan import Builder, Value
from edgeinfer.verbs.attention import BOTH_WAYS


def forward(b: Builder) -> Value:
    c = b.config
    rope = b.model_rope("halves")
    x = b.typed_embedding()
    for layer in b.layers():
        q, k, v = b.qkv(x)
        h = b.attend(b.rope(q, rope), b.rope(k, rope), v, layer, scores=BOTH_WAYS)
        x = b.layer_norm(b.add(x, b.linear(h, "attn_output", c.dim)), "attn_output_norm")
        x = b.layer_norm(b.add(x, b.plain_mlp(x, "gelu_erf")), "layer_output_norm")
    return x
