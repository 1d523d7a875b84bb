"""Apertus: names of its own for the norms; the numbers of xIELU become keys."""

import numpy as np

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "apertus"
CLASSES = ("ApertusForCausalLM",)
LAYER = {
    **usual.ATTENTION,
    **usual.MLP,
    "attn_norm": "attention_layernorm",
    "ffn_norm": "feedforward_layernorm",
}
NUMBERS = {"alpha_p": 0.8, "alpha_n": 0.8, "beta": 0.5, "eps": -1e-6}


def write(w: Writer) -> None:
    usual.expect_activation(w, "xielu")
    usual.decoder(w, LAYER)
    found: dict[str, list[float]] = {name: [] for name in NUMBERS}
    for _ in w.layers(usual.layers(w)):
        for name, usual_number in NUMBERS.items():
            source = f"mlp.act_fn.{name}"
            found[name].append(float(w.numbers(source)[0]) if w.has(source) else usual_number)
    w.pairs |= {f"xielu.{name}": np.array(numbers, np.float32) for name, numbers in found.items()}
