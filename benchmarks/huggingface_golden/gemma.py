"""Gemma."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import EXPERTS, WINDOW, Cases
from tests.huggingface import golden

GEMMA3N = {  # numbers that GGUF has no keys for are as in the models that were published
    **{"num_hidden_layers": 25, "intermediate_size": [48] * 25, "head_dim": 16, "laurel_rank": 64, **WINDOW},
    **{"hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": golden.VOCAB, "num_kv_shared_layers": 5},
    **{"layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 5},
    **{"activation_sparsity_pattern": [0.95] * 10 + [0.0] * 15},
}
GEMMA4 = {
    **{"num_hidden_layers": 6, "head_dim": 16, "global_head_dim": 32, "final_logit_softcapping": 30.0, **WINDOW},
    **{"layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2},
}

CASES: Cases = {
    "gemma": ("GemmaForCausalLM", {"head_dim": 16}),
    "gemma2": ("Gemma2ForCausalLM", {**WINDOW, "head_dim": 16, "query_pre_attn_scalar": 16}),
    "gemma3": (
        "Gemma3ForCausalLM",
        {
            **WINDOW,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "num_hidden_layers": 4,
            "sliding_window_pattern": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "gemma3-defaults": (
        "Gemma3ForCausalLM",
        {
            **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "max_position_embeddings")),
            "num_hidden_layers": 6,
        },
    ),
    "gemma3n": ("Gemma3nForCausalLM", GEMMA3N),
    "gemma4": (
        "Gemma4ForCausalLM",
        {
            **GEMMA4,
            "hidden_size_per_layer_input": 12,
            "vocab_size_per_layer_input": golden.VOCAB,
            "num_kv_shared_layers": 3,
            "use_double_wide_mlp": True,
        },
    ),
    "gemma4-experts": (
        "Gemma4ForCausalLM",
        {
            **GEMMA4,
            **EXPERTS,
            "enable_moe_block": True,
            "top_k_experts": 2,
            "hidden_size_per_layer_input": 0,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
        },
    ),
}
