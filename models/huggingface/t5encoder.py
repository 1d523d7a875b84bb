"""T5's encoder: names of its own."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "t5encoder"
CLASSES = ("T5EncoderModel",)
MODEL = {"token_embd": "shared", "enc.output_norm": "encoder.final_layer_norm"}
ATTENTION, MLP = "layer.0.SelfAttention", "layer.1.DenseReluDense"
LAYER = {
    "attn_norm": "layer.0.layer_norm",
    "attn_q": f"{ATTENTION}.q",
    "attn_k": f"{ATTENTION}.k",
    "attn_v": f"{ATTENTION}.v",
    "attn_o": f"{ATTENTION}.o",
    "attn_rel_b": f"{ATTENTION}.relative_attention_bias",
    "ffn_norm": "layer.1.layer_norm",
    "ffn_gate": f"{MLP}.wi_0",
    "ffn_up": f"{MLP}.wi_1",
    "ffn_down": f"{MLP}.wo",
}
FARTHEST = 128  # tokens that are told apart by their distance


def write(w: Writer) -> None:
    numbers(w)
    usual.both_ways(w)
    tensors(w)


def numbers(w: Writer) -> None:
    kind = w.config.text("feed_forward_proj", default="relu")
    if kind not in ("relu", "gated-gelu"):
        raise UnsupportedError(f"{w.config.where}: feed_forward_proj is {shown(kind)}; {w.arch} has relu or gated-gelu")
    if w.config.integer("relative_attention_max_distance", default=FARTHEST) != FARTHEST:
        raise UnsupportedError(f"{w.config.where}: relative_attention_max_distance is not {FARTHEST}")
    usual.sizes(w)
    heads, size = usual.heads(w), w.config.integer("d_kv")
    w.key("attention.head_count_kv", heads)
    w.key("attention.key_length", size)
    w.key("attention.value_length", size)
    w.key("feed_forward_length", w.config.integer("d_ff"))
    w.key("attention.relative_buckets_count", w.config.integer("relative_attention_num_buckets", default=32))


def tensors(w: Writer) -> None:
    w.ignore("encoder.embed_tokens.weight")
    w.copy(MODEL)
    for _ in w.layers(usual.layers(w), "encoder.block", "enc.blk"):
        w.copy(LAYER)
        w.copy({"ffn_up": f"{MLP}.wi"})
