"""Hunyuan-VL and HunyuanOCR, their text part: Hunyuan's names."""

import numpy as np

from edgeinfer.huggingface import rope
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import hunyuan_dense

ARCH = "hunyuan_vl"
CLASSES = ("HunYuanVLForConditionalGeneration",)


def write(w: Writer) -> None:
    hunyuan_dense.write(w)
    pairs = int(str(w.pairs[f"{w.arch}.rope.dimension_count"])) // 2
    named = rope.parameters(w.config).numbers("mrope_section", "xdrope_section", count=4, default=[pairs, 0, 0, 0])
    w.key("rope.dimension_sections", np.array(named, np.int32))
