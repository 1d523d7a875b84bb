"""Qwen2-VL and Qwen2.5-VL, their text part: Qwen2's names."""

import numpy as np

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "qwen2vl"
CLASSES = ("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.decoder(w)
    sections(w)


def sections(w: Writer) -> None:
    """How many pairs turn by each of three positions, which are one for text; also Qwen3-VL's."""
    pairs = int(str(w.pairs[f"{w.arch}.rope.dimension_count"])) // 2
    parts = rope.parameters(w.config).numbers("mrope_section", count=3, default=[pairs, 0, 0])
    w.key("rope.dimension_sections", np.array([*parts, 0], np.int32))
