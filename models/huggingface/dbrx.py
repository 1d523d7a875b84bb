"""DBRX: MPT's names; all experts' matrices of a kind are in one, that of ffn_down transposed."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "dbrx"
CLASSES = ("DbrxForCausalLM",)
DEFAULTS = {"norm_eps": 1e-5}
MODEL = {"token_embd": "transformer.wte", "output_norm": "transformer.norm_f", "output": "lm_head"}
LAYER = {
    "attn_norm": "norm_attn_norm.norm_1",
    "attn_qkv": "norm_attn_norm.attn.Wqkv",
    "attn_output": "norm_attn_norm.attn.out_proj",
    "attn_output_norm": "norm_attn_norm.norm_2",
    "ffn_gate_inp": "ffn.router.layer",
}


def write(w: Writer) -> None:
    attention, feed_forward = w.config.part("attn_config"), w.config.part("ffn_config")
    count, width = feed_forward.integer("moe_num_experts", least=1), feed_forward.integer("ffn_hidden_size", least=1)
    if feed_forward.number("moe_normalize_expert_weights", default=0.0) != 1:
        raise UnsupportedError(f"{feed_forward.where}: moe_normalize_expert_weights is not 1, as {w.arch} has it")
    usual.begin(w, norm="layer", model=MODEL)
    w.key("attention.head_count_kv", attention.integer("kv_n_heads", default=1, least=1))
    w.key("attention.clamp_kqv", attention.number("clip_qkv", default=0.0))
    w.key("rope.freq_base", attention.number("rope_theta", default=rope.base(w.config)))
    w.key("feed_forward_length", width)
    w.key("expert_count", count)
    w.key("expert_used_count", feed_forward.integer("moe_top_k", default=1, least=1))
    for _ in w.layers(usual.layers(w), "transformer.blocks"):
        w.copy(LAYER)
        for name, source in {"ffn_gate_exps": "w1", "ffn_up_exps": "v1", "ffn_down_exps": "w2"}.items():
            x = w.take(f"ffn.experts.mlp.{source}").reshape(count, width, usual.dim(w))
            w.put(f"{name}.weight", x.swapaxes(1, 2) if source == "w2" else x)
