"""BitNet b1.58: the usual names, and norms inside both branches; ternary matrices packed with a scale, or of numbers.

GGUF has no key for the activation of the models that were published, so `hidden_activation` is one of ours here."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "bitnet"
CLASSES = ("BitNetForCausalLM",)
LAYER = {**usual.LAYER, "attn_sub_norm": "self_attn.attn_sub_norm", "ffn_sub_norm": "mlp.ffn_sub_norm"}
PACKED = {"linear_class": "autobitlinear", "quantization_mode": "offline", "use_rms_norm": False}
UNSTATED = {**PACKED, "linear_class": "bitlinear"}  # what transformers takes where a folder says nothing
QUANTISED = ("bitnet",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu", "relu2")
    how = w.config.part("quantization_config")
    stated = {name: how.values.get(name, default) for name, default in UNSTATED.items()}
    if how.values and stated != PACKED:
        raise UnsupportedError(f"{how.where} is {shown(str(stated))}; what can be read is {PACKED}")
    usual.begin(w)
    w.key("hidden_activation", w.config.text("hidden_act", default="silu"))
    for _ in w.layers(usual.layers(w)):
        for name, source in LAYER.items():
            if w.has(f"{source}.weight_scale"):
                w.put_ternary(f"{name}.weight", w.codes(f"{source}.weight"))
                w.put(f"{name}.scale", w.take(f"{source}.weight_scale"))
            else:
                w.copy({name: source})
