"""Gemma 3, its text part too: Gemma 2's names, norms of Q and K, another base of RoPE in the local layers."""

from edgeinfer.errors import UnsupportedError
from edgeinfer.huggingface import rope, usual
from edgeinfer.huggingface.writer import Writer
from edgeinfer.models.huggingface import gemma
from edgeinfer.models.huggingface.gemma2 import check_scale

ARCH = "gemma3"
CLASSES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
DEFAULTS = {
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256},
    **{"max_position_embeddings": 131072, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6, "sliding_window": 4096},
}
LAYERS_OF_27B = 62
PERIOD = 6
NORMS = {**usual.SANDWICH, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def write(w: Writer) -> None:
    usual.sizes(w)
    rope.write(w, usual.head_dim(w))
    w.key("rope.freq_base_swa", rope.local_base(w.config))
    w.key("attention.sliding_window", w.config.integer("sliding_window"))
    w.key("attention.sliding_window_pattern", period(w))
    if w.config.has("final_logit_softcapping"):
        w.key("final_logit_softcapping", w.config.number("final_logit_softcapping"))
    check_scale(w, LAYERS_OF_27B)
    gemma.layers(w, NORMS)


def period(w: Writer) -> int:
    """Every so many layers one is global."""
    count = w.config.integer("sliding_window_pattern", "_sliding_window_pattern", default=PERIOD, least=1)
    layers = usual.layers(w)
    kinds = ["full_attention" if (layer + 1) % count == 0 else "sliding_attention" for layer in range(layers)]
    if w.config.texts("layer_types", count=layers, default=kinds) != kinds:
        raise UnsupportedError(f"{w.config.where}: layer_types are not those of a global layer every {count} layers")
    return count
