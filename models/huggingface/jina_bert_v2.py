"""Jina Embeddings v2: BERT's names but for the feed-forward, of which one tensor has gate and up: gated_layers in this
order, up_gated_layer in the other."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import bert

ARCH = "jina-bert-v2"
CLASSES = ("JinaBertModel", "JinaBertForMaskedLM")
DEFAULTS = {"layer_norm_eps": 1e-12}
LAYER = {
    **{name: bert.LAYER[name] for name in ("attn_q", "attn_k", "attn_v", "attn_output", "attn_output_norm")},
    "attn_q_norm": "attention.self.layer_norm_q",
    "attn_k_norm": "attention.self.layer_norm_k",
    "attn_norm_2": "layer_norm_1",
}
FIRST = {**LAYER, "ffn_down": "mlp.wo", "layer_output_norm": "mlp.layernorm"}
CODE = {**LAYER, "ffn_down": "mlp.down_layer", "layer_output_norm": "layer_norm_2"}


def write(w: Writer) -> None:
    kind = w.config.text("feed_forward_type", default="geglu")
    if kind != "geglu":
        raise UnsupportedError(f"{w.config.where}: feed_forward_type is {shown(kind)}; {w.arch} has geglu")
    usual.sizes(w, "layer")
    usual.both_ways(w)
    body = next((body for body in bert.BODIES if w.has(f"{body}{bert.EMBEDDING['token_embd']}.weight")), "")
    w.copy({name: body + source for name, source in bert.EMBEDDING.items()})
    bert.ignore_heads(w, body)
    for _ in w.layers(usual.layers(w), body + "encoder.layer"):
        code = w.has("mlp.up_gated_layer.weight")
        both = w.take("mlp.up_gated_layer.weight" if code else "mlp.gated_layers.weight")
        first, second = both[: len(both) // 2], both[len(both) // 2 :]
        w.copy(CODE if code else FIRST)
        w.put("ffn_gate.weight", second if code else first)
        w.put("ffn_up.weight", first if code else second)
