"""MPT: Q, K and V in one matrix, as GGUF has them."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "mpt"
CLASSES = ("MptForCausalLM", "MPTForCausalLM")
MODEL = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.norm_f",
    "output": "lm_head",
}
LAYER = {
    "attn_norm": "norm_1",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.out_proj",
    "attn_q_norm": "attn.q_ln",
    "attn_k_norm": "attn.k_ln",
    "ffn_norm": "norm_2",
    "ffn_up": "ffn.up_proj",
    "ffn_down": "ffn.down_proj",
}


def write(w: Writer) -> None:
    attention = w.config.part("attn_config")
    if attention.has("softmax_scale"):
        raise UnsupportedError(f"{attention.where}: softmax_scale, which {w.arch} has not")
    usual.sizes(w, "layer")
    w.key("context_length", w.config.integer("max_seq_len", default=2048))
    w.key("attention.head_count_kv", attention.integer("kv_n_heads", default=usual.heads(w)))
    w.key("feed_forward_length", int(w.config.number("expansion_ratio", default=4.0) * usual.dim(w)))
    bias = attention.number("alibi_bias_max", default=8.0) if attention.flag("alibi", default=False) else 0.0
    w.key("attention.max_alibi_bias", bias)
    if attention.has("clip_qkv"):
        w.key("attention.clamp_kqv", attention.number("clip_qkv"))
    usual.head(w, MODEL)
    for _ in w.layers(usual.layers(w), "transformer.blocks"):
        w.copy(LAYER)
