"""Qwen3-VL, its text part: Qwen3's names."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import qwen2vl

ARCH = "qwen3vl"
CLASSES = ("Qwen3VLForConditionalGeneration",)


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w)
    qwen2vl.sections(w)
