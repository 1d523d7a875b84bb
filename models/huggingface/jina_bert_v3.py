"""Jina Embeddings v3, without the adapters of its tasks: Nomic's names, all but a few."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface.nomic_bert import MODEL

ARCH = "jina-bert-v3"
CLASSES = ("JinaEmbeddingsV3Model",)
LAYER = {
    "attn_qkv": "mixer.Wqkv",
    "attn_output": "mixer.out_proj",
    "attn_output_norm": "norm1",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
    "layer_output_norm": "norm2",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu")
    usual.sizes(w, "layer")
    usual.both_ways(w)
    rope.write(w, usual.head_dim(w))
    w.copy(MODEL)
    w.ignore("pooler.dense.weight", "pooler.dense.bias")
    for _ in w.layers(usual.layers(w), "encoder.layers"):
        w.copy(LAYER)
