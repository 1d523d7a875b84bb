"""DeepSeek V2 and V3, GLM 4.7 Flash, Youtu: latent attention; GGUF has K's and V's matrices apart, K's transposed."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer

ARCH = "deepseek2"
CLASSES = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM", "YoutuForCausalLM")
LATENT = {
    "attn_q": "q_proj",
    "attn_q_a": "q_a_proj",
    "attn_q_a_norm": "q_a_layernorm",
    "attn_q_b": "q_b_proj",
    "attn_kv_a_mqa": "kv_a_proj_with_mqa",
    "attn_kv_a_norm": "kv_a_layernorm",
    "attn_output": "o_proj",
}


def write(w: Writer) -> None:
    usual.expect_activation(w, "silu")
    numbers(w)
    growth(w)
    usual.head(w)
    count = 0
    if w.config.has("n_routed_experts"):
        router(w)
        count = usual.expert_keys(w)
    for _ in w.layers(usual.layers(w)):
        w.copy(usual.NORMS)
        latent(w)
        usual.sparse(w, count)


def numbers(w: Writer) -> None:
    """All but the experts'."""
    rank, turning = w.config.integer("kv_lora_rank"), w.config.integer("qk_rope_head_dim")
    usual.sizes(w)
    w.key("attention.head_count_kv", 1)
    w.key("attention.key_length", rank + turning)
    w.key("attention.value_length", rank)
    w.key("attention.key_length_mla", w.config.integer("qk_nope_head_dim") + turning)
    w.key("attention.value_length_mla", w.config.integer("v_head_dim"))
    w.key("attention.kv_lora_rank", rank)
    if w.config.has("q_lora_rank"):
        w.key("attention.q_lora_rank", w.config.integer("q_lora_rank"))
    rope.write(w, turning)
    w.key("rope.dimension_count", turning)  # what config.json may state besides is its share of a whole head


def latent(w: Writer, block: str = "self_attn") -> None:
    """The attention of a layer."""
    w.copy({name: f"{block}.{source}" for name, source in LATENT.items()})
    usual.expand(w, block, usual.heads(w), w.config.integer("qk_nope_head_dim"), w.config.integer("v_head_dim"))


def growth(w: Writer) -> None:
    """With YaRN it is the scores that grow, and not cos and sin."""
    scaling = rope.parameters(w.config)
    whole = scaling.number("mscale_all_dim", default=0.0)
    if scaling.text("rope_type", default="default") != "yarn" or not whole:
        return
    if scaling.number("mscale", default=1.0) != whole:
        raise UnsupportedError(f"{scaling.where}: mscale and mscale_all_dim differ, which {w.arch} cannot have")
    w.key("rope.scaling.attn_factor", 1.0)
    w.key("rope.scaling.yarn_log_multiplier", 0.1 * whole)


def router(w: Writer) -> None:
    """V3's goes by a sigmoid; V2's by a softmax, and where it looks at some groups of experts, by the best of each."""
    method = w.config.text("topk_method", default="noaux_tc")
    w.key("expert_gating_func", 2 if method == "noaux_tc" else 1)
    w.key("leading_dense_block_count", usual.dense_layers(w))
    if method == "noaux_tc":
        w.key("expert_group_count", w.config.integer("n_group", default=1))
        w.key("expert_group_used_count", w.config.integer("topk_group", default=1))
    elif method != "greedy":
        raise UnsupportedError(f"{w.config.where}: topk_method {shown(method)}; known: greedy noaux_tc")
