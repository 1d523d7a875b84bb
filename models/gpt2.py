"""GPT-2: learned positions, layer norms with biases, a plain GELU MLP.

Source: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf.
"""

from edgeinfer.plan import Builder, Value


def forward(b: Builder) -> Value:
    c = b.config
    x = b.add(b.embed(), b.positions("position_embd"))
    for layer in b.layers():
        q, k, v = b.qkv(b.layer_norm(x, "attn_norm"))
        x = b.add(x, b.linear(b.attend(q, k, v, layer), "attn_output", c.dim))
        x = b.add(x, b.plain_mlp(b.layer_norm(x, "ffn_norm"), "gelu"))
    return b.unembed(b.layer_norm(b.outputs(x), "output_norm"))
