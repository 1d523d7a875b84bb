"""GPT-OSS: rows of the experts' gate and up in turn, in MXFP4 or as numbers."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "gpt-oss"
CLASSES = ("GptOssForCausalLM",)
QUANTISED = ("mxfp4",)
GATE_AND_UP = ("ffn_gate_exps", "ffn_up_exps")
LAYER = {
    **usual.ATTENTION,
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.router",
}


def write(w: Writer) -> None:
    usual.begin(w)
    w.key("expert_feed_forward_length", usual.ff_dim(w))
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
        w.put("attn_sinks.weight", w.take("self_attn.sinks"))
        bias = w.take("mlp.experts.gate_up_proj_bias")
        for start, name in enumerate(GATE_AND_UP):
            w.put(f"{name}.bias", bias[:, start::2])
        w.put("ffn_down_exps.bias", w.take("mlp.experts.down_proj_bias"))
        if w.has("mlp.experts.down_proj"):
            matrices(w)
        else:
            blocks(w)


def matrices(w: Writer) -> None:
    """The experts' matrices where their numbers are not quantised: transposed."""
    both = w.take("mlp.experts.gate_up_proj").swapaxes(1, 2)
    for start, name in enumerate(GATE_AND_UP):
        w.put(f"{name}.weight", both[:, start::2])
    w.put("ffn_down_exps.weight", w.take("mlp.experts.down_proj").swapaxes(1, 2))


def blocks(w: Writer) -> None:
    """The experts' matrices as they are published, in MXFP4."""
    scales, codes = w.codes("mlp.experts.gate_up_proj_scales"), w.codes("mlp.experts.gate_up_proj_blocks")
    for start, name in enumerate(GATE_AND_UP):
        w.put_mxfp4(f"{name}.weight", scales[:, start::2], codes[:, start::2])
    scales, codes = w.codes("mlp.experts.down_proj_scales"), w.codes("mlp.experts.down_proj_blocks")
    w.put_mxfp4("ffn_down_exps.weight", scales, codes)
