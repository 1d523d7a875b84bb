"""Nomic Embed v1 and v1.5: names of its own."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "nomic-bert"
CLASSES = ("NomicBertModel",)
DEFAULTS = {"layer_norm_eps": 1e-12}
MODEL = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "emb_ln",
}
LAYER = {
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.out_proj",
    "attn_output_norm": "norm1",
    "ffn_up": "mlp.fc11",
    "ffn_gate": "mlp.fc12",
    "ffn_down": "mlp.fc2",
    "layer_output_norm": "norm2",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu", "swiglu")
    usual.sizes(w, "layer")
    usual.both_ways(w)
    rope.write(w, usual.head_dim(w))
    w.copy(MODEL)
    for _ in w.layers(usual.layers(w), "encoder.layers"):
        w.copy(LAYER)
