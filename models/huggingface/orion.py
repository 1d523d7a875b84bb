"""Orion: Llama's names, of layer norms whose epsilon goes by the name of RMS norms'."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "orion"
CLASSES = ("OrionForCausalLM",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w, norm="layer")
    w.key("attention.layer_norm_epsilon", w.config.number("rms_norm_eps", default=1e-5))
