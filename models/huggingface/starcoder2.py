"""StarCoder 2: GPT-2's names of the MLP."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "starcoder2"
CLASSES = ("Starcoder2ForCausalLM",)
LAYER = {**usual.NORMS, **usual.ATTENTION, "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu_pytorch_tanh")
    usual.lose_window(w)
    usual.decoder(w, LAYER, norm="layer")
