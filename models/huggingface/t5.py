"""T5, mT5 and UMT5: t5encoder's names, and a decoder's like them."""

import numpy as np

from edgeinfer.config import MAX_LAYERS
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import t5encoder

ARCH = "t5"
CLASSES = ("T5ForConditionalGeneration", "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration")
MLP, CROSS = "layer.2.DenseReluDense", "layer.1.EncDecAttention"
LAYER = {
    **t5encoder.LAYER,
    "cross_attn_norm": "layer.1.layer_norm",
    **{f"cross_attn_{part}": f"{CROSS}.{part}" for part in "qkvo"},
    "ffn_norm": "layer.2.layer_norm",
    "ffn_gate": f"{MLP}.wi_0",
    "ffn_up": f"{MLP}.wi_1",
    "ffn_down": f"{MLP}.wo",
}


def write(w: Writer) -> None:
    t5encoder.numbers(w)
    layers = w.config.integer("num_decoder_layers", default=usual.layers(w), least=1, most=MAX_LAYERS)
    w.key("decoder_block_count", layers)
    w.key("decoder_start_token_id", w.config.integer("decoder_start_token_id", "pad_token_id", default=0))
    t5encoder.tensors(w)
    w.copy({"dec.output_norm": "decoder.final_layer_norm"})
    for _ in w.layers(layers, "decoder.block", "dec.blk"):
        w.copy(LAYER)
        w.copy({"ffn_up": f"{MLP}.wi"})
        w.ignore(f"{CROSS}.relative_attention_bias.weight")  # of the first folders, in no use since
    w.ignore("decoder.embed_tokens.weight")
    output(w)


def output(w: Writer) -> None:
    """GGUF's T5 scales what goes into its embedding as output matrix, and into no other."""
    tied = w.config.flag("tie_word_embeddings", default=True)
    scaled = w.config.flag("scale_decoder_outputs", default=tied) and not w.source_class.startswith("MT5")
    if not w.has("lm_head.weight") and scaled:
        return
    matrix = w.take("lm_head.weight" if w.has("lm_head.weight") else "shared.weight")
    factor = usual.dim(w) ** -0.5
    w.put("output.weight", matrix, change=(lambda x: x * np.float32(factor)) if scaled else None)
