"""ModernBERT: the usual names but for the fused matrices, two bases of RoPE, and the head of cross-encoders."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "modern-bert"
CLASSES = ("ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification")
DEFAULTS = {"norm_eps": 1e-5, "max_position_embeddings": 8192}

MODEL = {"token_embd": "embeddings.tok_embeddings", "token_embd_norm": "embeddings.norm", "output_norm": "final_norm"}
LAYER = {
    "attn_norm": "attn_norm",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "ffn_up": "mlp.Wi",
    "ffn_down": "mlp.Wo",
}
BASES = {"rope.freq_base": ("full_attention", 160_000.0), "rope.freq_base_swa": ("sliding_attention", 10_000.0)}
POOLINGS = {"mean": 1, "cls": 2}


def write(w: Writer) -> None:
    usual.expect_activation(w, "gelu", "silu")
    w.key("hidden_activation", w.config.text("hidden_activation", default="gelu"))
    usual.sizes(w, "layer")
    usual.both_ways(w)
    w.key("attention.sliding_window", w.config.integer("local_attention", default=128))
    w.key("attention.sliding_window_pattern", w.config.integer("global_attn_every_n_layers", default=3, least=1))
    for key, (kind, default) in BASES.items():
        stated = w.config.part("rope_parameters").part(kind)
        older = "global_rope_theta" if kind == "full_attention" else "local_rope_theta"
        w.key(key, stated.number("rope_theta", default=w.config.number(older, default=default)))
    body = "model." if w.has("model.embeddings.tok_embeddings.weight") else ""
    w.copy({name: body + source for name, source in MODEL.items()})
    for _ in w.layers(usual.layers(w), f"{body}layers"):
        w.copy(LAYER)
    w.ignore("head.dense.weight", "head.norm.weight", "decoder.weight", "decoder.bias")  # which guess masked words
    if w.has("classifier.weight"):
        usual.score(w, "classifier")
        if w.config.text("classifier_activation", default="gelu") != "gelu":
            raise UnsupportedError(f"{w.config.where}: classifier_activation is not gelu")
        w.copy({"cls": "head.dense", "cls.norm": "head.norm", "cls.output": "classifier"})
        pooling = w.config.text("classifier_pooling", default="cls")
        if pooling not in POOLINGS:
            raise UnsupportedError(f"{w.config.where}: classifier_pooling is neither mean nor cls")
        w.key("classifier.pooling_type", POOLINGS[pooling])
