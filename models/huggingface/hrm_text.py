"""HRM-Text: fused gate, Q, K and V, fused gate and up; in GGUF the layers of the low stack come first."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "hrm_text"
CLASSES = ("HrmTextForCausalLM",)
STACKS = ("model.L_module.layers", "model.H_module.layers")


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    size = w.config.integer("num_layers_per_stack", default=usual.layers(w), least=1)
    high, low = w.config.integer("H_cycles", least=1), w.config.integer("L_cycles", least=1)
    usual.begin(w)
    w.key("block_count", size * high * (low + 1))
    w.key("attention.head_count_kv", usual.heads(w))
    w.key("hrm.layers_per_stack", size)
    w.key("hrm.h_cycles", high)
    w.key("hrm.l_cycles", low)
    w.key("hrm.prefix_lm", w.config.flag("prefix_lm", default=True))
    w.key("embedding_scale", w.config.number("embedding_scale"))
    w.put("hrm.z_l_init", w.take("model.z_L_init"))
    for stack, source in enumerate(STACKS):
        for _ in w.layers(size, source, first=stack * size):
            parts(w, "attn.gqkv_proj.weight", "attn_gate", "attn_q", "attn_k", "attn_v")
            parts(w, "mlp.gate_up_proj.weight", "ffn_gate", "ffn_up")
            w.copy({"attn_output": "attn.o_proj", "ffn_down": "mlp.down_proj"})


def parts(w: Writer, source: str, *names: str) -> None:
    """Matrices that lie behind each other in one."""
    for name, part in zip(names, np.split(w.take(source), len(names)), strict=True):
        w.put(f"{name}.weight", part)
