"""Cohere 2 with experts: Command R7B's block, where experts by a sigmoid share the branch with a shared one.

Source: llama.cpp's cohere2moe.  Norms are RMS norms where the file has their epsilon.  Leading dense layers have RoPE
even if they are global; the last layers predict further tokens and are left out.
"""

from edgeinfer.plan import Builder, Value

PERIOD = 4  # the first layer of each four is global, unless the file says otherwise


def forward(b: Builder) -> Value:
    c = b.config
    window, local = b.keys.integer("attention.sliding_window"), b.sliding(PERIOD, first=True)
    norm = b.norm if b.keys.has("attention.layer_norm_rms_epsilon") else b.layer_norm
    rope = b.model_rope("adjacent")
    x = b.embed()
    for layer in b.layers(b.main_layers):
        h = norm(x, "attn_norm")
        q, k, v = b.qkv(h)
        if local[layer] or not b.has("ffn_gate_inp"):
            q, k = b.rope(q, rope), b.rope(k, rope)
        y = b.linear(b.attend(q, k, v, layer, window if local[layer] else 0), "attn_output", c.dim)
        mixed = b.moe(h, "silu", "sigmoid")
        mixed = b.scale(mixed, 0.5) if b.has("ffn_up_shexp") else mixed  # the mean of both
        x = b.add(b.add(x, y), mixed)
    return b.scale(b.unembed(norm(b.outputs(x), "output_norm")), b.keys.number("logit_scale"))
