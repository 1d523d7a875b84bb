"""MiniCPM 3: latent attention with K and V of all heads in one matrix."""

from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import deepseek2
from edgeinfer.models.minicpm3 import BASE_DIM, DEPTH, EMBEDDING

ARCH = "minicpm3"
CLASSES = ("MiniCPM3ForCausalLM",)
LATENT = {name: f"self_attn.{source}" for name, source in deepseek2.LATENT.items()}
LAYER = {**usual.NORMS, **LATENT, **usual.MLP, "attn_kv_b": "self_attn.kv_b_proj"}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    for name, value in {"scale_emb": EMBEDDING, "scale_depth": DEPTH, "dim_model_base": BASE_DIM}.items():
        usual.expect(w, name, value)
    turning = w.config.integer("qk_rope_head_dim")
    usual.sizes(w)
    w.key("attention.head_count_kv", usual.heads(w))
    w.key("attention.key_length", w.config.integer("qk_nope_head_dim") + turning)
    w.key("attention.value_length", w.config.integer("v_head_dim", default=usual.dim(w) // usual.heads(w)))
    w.key("attention.kv_lora_rank", w.config.integer("kv_lora_rank"))
    w.key("attention.q_lora_rank", w.config.integer("q_lora_rank"))
    rope.write(w, turning)
    usual.head(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(LAYER)
