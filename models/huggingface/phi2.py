"""Phi-1 to Phi-2: GPT-2's names of the MLP."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "phi2"
CLASSES = ("PhiForCausalLM",)
MODEL = {**usual.MODEL, "output_norm": "model.final_layernorm"}
LAYER = {
    **usual.ATTENTION,
    "attn_norm": "input_layernorm",
    "attn_output": "self_attn.dense",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu_new", "gelu_pytorch_tanh")
    if w.config.flag("qk_layernorm", default=False):
        raise UnsupportedError(f"{w.config.where}: qk_layernorm, which {w.arch} has not")
    usual.decoder(w, LAYER, norm="layer", share=0.5, model=MODEL)
