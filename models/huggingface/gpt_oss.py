"""GPT-OSS: the experts' matrices are transposed, rows of gate and up in turn."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "gpt-oss"
CLASSES = ("GptOssForCausalLM",)
LAYER = {
    **usual.ATTENTION,
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.router",
}


def write(w: Writer) -> None:
    usual.sizes(w)
    w.key("expert_feed_forward_length", usual.ff_dim(w))
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    rope.write(w, usual.head_dim(w))
    usual.head(w)
    usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
        w.put("attn_sinks.weight", w.take("self_attn.sinks"))
        both, bias = w.take("mlp.experts.gate_up_proj").swapaxes(1, 2), w.take("mlp.experts.gate_up_proj_bias")
        for start, name in enumerate(("ffn_gate_exps", "ffn_up_exps")):
            w.put(f"{name}.weight", both[:, start::2])
            w.put(f"{name}.bias", bias[:, start::2])
        w.put("ffn_down_exps.weight", w.take("mlp.experts.down_proj").swapaxes(1, 2))
        w.put("ffn_down_exps.bias", w.take("mlp.experts.down_proj_bias"))
