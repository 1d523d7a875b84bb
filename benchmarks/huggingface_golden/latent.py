"""Latent attention."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import WINDOW, YARN, Cases

MLA = {
    **{"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 2},
    **{"first_k_dense_replace": 1, "num_key_value_heads": 4},
}
INDEXED = {
    **{"index_n_heads": 8, "index_head_dim": 16, "index_topk": 8},  # with few heads many positions would be equal
    **{"n_group": 2, "topk_group": 1, "num_hidden_layers": 3},
}
DELTA = {**MLA, "n_routed_experts": None, "num_experts": 4, "num_hidden_layers": 4, "n_group": 2}
LING = {**DELTA, "head_dim": 8, "qk_rope_head_dim": 8, "layer_group_size": 2, "topk_group": 1}
NEAR = {
    **{"swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_kv_lora_rank": 12, "swa_q_lora_rank": 24},
    **{"swa_qk_nope_head_dim": 6, "swa_v_head_dim": 10, "swa_head_dim": 10, "swa_qk_rope_head_dim": 4, **WINDOW},
}
STREAMS = {
    **{**MLA, **INDEXED, "n_group": 1, "num_hidden_layers": 4, "n_shared_experts": 1, "routed_scaling_factor": 1.7},
    **{"indexer_types": ["full", "shared"] * 2, "swiglu_limit": 0.8, "hc_magnitude": 1.5},
}
MSCALE = {"mscale": 0.7, "mscale_all_dim": 0.7}
GROWING = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}

CASES: Cases = {
    "mistral4": ("Mistral4ForCausalLM", {**MLA, "rope_parameters": GROWING}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**MLA}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {**MLA, "n_group": 2, "topk_group": 1, "num_hidden_layers": 3}),
    "deepseek_v2-yarn": ("DeepseekV2ForCausalLM", {**MLA, "rope_parameters": {**YARN, **MSCALE}, "q_lora_rank": None}),
    "deepseek_v3-yarn": (
        "DeepseekV3ForCausalLM",
        {**MLA, "n_group": 2, "topk_group": 1, "rope_parameters": {**YARN, **MSCALE}},
    ),
    "deepseek_v32": ("DeepseekV32ForCausalLM", {**MLA, **INDEXED}),
    "deepseek_v32-yarn": ("DeepseekV32ForCausalLM", {**MLA, **INDEXED, "rope_parameters": {**YARN, **MSCALE}}),
    "dots3_note": (
        "Dots3NoteForCausalLM",
        {**MLA, **INDEXED, **NEAR, "num_hidden_layers": 4, "shared_experts_intermediate_size": 20},
    ),
    "hy_v4": ("HYV4ForCausalLM", STREAMS),
    "glm_moe_dsa": ("GlmMoeDsaForCausalLM", {**MLA, **INDEXED, "num_hidden_layers": 4, "index_topk_freq": 2}),
    "glm4_moe_lite": ("Glm4MoeLiteForCausalLM", {**MLA, "num_hidden_layers": 3, "routed_scaling_factor": 1.8}),
    "kimi_linear": (
        "KimiLinearForCausalLM",
        {
            **DELTA,
            "q_lora_rank": None,
            "linear_head_dim": 16,
            "linear_num_heads": 4,
            "layer_types": ["linear_attention", "full_attention"] * 2,
        },
    ),
    "bailing_hybrid": ("BailingHybridForCausalLM", LING),
    "bailing_hybrid-hub": ("BailingHybridForCausalLM", {**LING, "q_lora_rank": None, "kda_lower_bound": -2.0}),
    "youtu": ("YoutuForCausalLM", {**MLA, "n_routed_experts": None, "pad_token_id": None}),
    "minicpm3": ("MiniCPM3ForCausalLM", {**MLA, "hidden_size": 32}),
}
