"""GPT-NeoX and Pythia: partial RoPE, layer norms with biases; attention and MLP side by side or one after the other.

Source: https://arxiv.org/abs/2204.06745.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    parallel = b.keys.flag("use_parallel_residual")
    rope = b.model_rope("halves")
    x = b.embed()
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        h = b.linear(b.attend(b.rope(q, rope), b.rope(k, rope), v, layer), "attn_output", c.dim)
        after = b.add(x, h)
        x = b.add(after, b.plain_mlp(b.layer_norm(x if parallel else after, "ffn_norm"), "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
