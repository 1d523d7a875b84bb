"""GLM 5: DeepSeek V3.2's names; layers without an indexer go by that of the last layer with one."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek32

ARCH = "glm-dsa"
CLASSES = ("GlmMoeDsaForCausalLM",)


def write(w: Writer) -> None:
    deepseek32.write(w)
    full = [w.has(f"{deepseek32.INDEXER['indexer.attn_k']}.weight") for _ in w.layers(usual.layers(w))]
    w.key("attention.indexer.types", np.array(full))
