"""Ling and Ring 2, and Sarvam, whose layers are theirs: fused Q, K and V, and names of its own."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import bailingmoe3

ARCH = "bailingmoe2"
CLASSES = ("BailingMoeV2ForCausalLM", "SarvamMoEForCausalLM")
DEFAULTS = {"rope_theta": 8e6}
LAYER = {
    **usual.NORMS,
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "attn_q_norm": "attention.query_layernorm",
    "attn_k_norm": "attention.key_layernorm",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    usual.begin(w, model=bailingmoe3.MODEL, share=1.0 if w.source_class == "SarvamMoEForCausalLM" else 0.5)
    count = usual.routed(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
        usual.sparse(w, count)
