"""Mixtures of experts that generate."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import EXPERTS, FEW, OWN, ROUTED, SCALES, WINDOW, YARN, Cases

CASES: Cases = {
    "dbrx": (
        "DbrxForCausalLM",
        {
            **OWN,
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.7, "rope_theta": 5000.0},
            "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
            "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
    "cohere2_moe": (
        "Cohere2MoeForCausalLM",
        {
            **FEW,
            **WINDOW,
            "head_dim": 16,
            "num_hidden_layers": 6,
            "first_k_dense_replace": 1,
            "prefix_dense_intermediate_size": 40,
            "rms_norm_eps": 1e-5,
            "num_shared_experts": 2,
            "expert_selection_fn": "sigmoid",
        },
    ),
    "cohere2_moe-softmax": ("Cohere2MoeForCausalLM", {**FEW, **WINDOW, "num_hidden_layers": 4}),
    "laguna": (
        "LagunaForCausalLM",
        {
            **EXPERTS,
            **WINDOW,
            "shared_expert_intermediate_size": 40,
            "moe_routed_scaling_factor": 1.7,
            "head_dim": 16,
            "num_hidden_layers": 4,
            "num_attention_heads_per_layer": [4, 2, 6, 4],
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {**YARN, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.75},
            },
        },
    ),
    "laguna-columns": (
        "LagunaForCausalLM",
        {**EXPERTS, "shared_expert_intermediate_size": 24, "gating": "per-element"},
    ),
    "mellum": (
        "MellumForCausalLM",
        {
            **EXPERTS,
            **WINDOW,
            "head_dim": 16,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "rope_parameters": {
                "full_attention": YARN,
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
    ),
    "granitemoe_swa": ("GraniteMoeSWAForCausalLM", {**SCALES, **FEW, **WINDOW}),
    "mixtral": ("MixtralForCausalLM", FEW),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        {**EXPERTS, "shared_expert_intermediate_size": 40, "num_hidden_layers": 3, "mlp_only_layers": [1]},
    ),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True}),
    "olmoe": ("OlmoeForCausalLM", {**EXPERTS, "intermediate_size": 24}),
    "exaone_moe": ("ExaoneMoeForCausalLM", {**ROUTED, **WINDOW, "num_hidden_layers": 5, "num_shared_experts": 1}),
    "dots1": ("Dots1ForCausalLM", ROUTED),
    "hy_v3": (
        "HYV3ForCausalLM",
        {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "router_scaling_factor": 1.7,
            "head_dim": 16,
            "num_hidden_layers": 3,
            "mlp_layer_types": ["dense", "sparse", "sparse"],
        },
    ),  # fmt: skip
    "sarvam_moe": ("sarvam_moe", {**ROUTED, "head_dim": 16}),
    "bailing_moe_v2": (
        "sarvam_moe",
        {
            **{**ROUTED, "head_dim": 16, "n_group": 2, "topk_group": 1},
            "rope_parameters": {"rope_type": "default", "rope_theta": 6e5, "partial_rotary_factor": 0.5},
        },
    ),
    "solar_open": ("SolarOpenForCausalLM", {**ROUTED, "head_dim": 16}),
    "glm4_moe": ("Glm4MoeForCausalLM", {**ROUTED, "use_qk_norm": True, "attention_bias": True}),
    "granitemoe": ("GraniteMoeForCausalLM", {**SCALES, **FEW}),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", {**SCALES, **FEW, "shared_intermediate_size": 40}),
    "ernie4_5_moe": (
        "Ernie4_5_MoeForCausalLM",
        {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24, "num_hidden_layers": 3},
    ),
    "gpt_oss": ("GptOssForCausalLM", {**FEW, **WINDOW, "head_dim": 16, "rope_parameters": {**YARN, "truncate": False}}),
    "gpt_oss-mxfp4": (
        "GptOssForCausalLM",
        {**FEW, **WINDOW, "hidden_size": 64, "intermediate_size": 64, "rope_parameters": YARN, "head_dim": 16},
    ),
    "afmoe": (
        "AfmoeForCausalLM",
        {
            **EXPERTS,
            **WINDOW,
            "mup_enabled": True,
            "num_hidden_layers": 5,
            "num_dense_layers": 1,
            "num_shared_experts": 1,
            "head_dim": 16,
            "route_scale": 1.5,
        },
    ),
    "hunyuan_moe": (
        "HunYuanMoEV1ForCausalLM",
        {**FEW, "head_dim": 16, "moe_topk": [2, 2], "num_shared_expert": [1, 1]},
    ),
    "llama4": (
        "Llama4ForCausalLM",
        {
            **EXPERTS,
            "num_experts_per_tok": 1,
            "head_dim": 16,
            "num_hidden_layers": 4,
            "intermediate_size": 24,
            "intermediate_size_mlp": 40,
            "interleave_moe_layer_step": 2,
        },
    ),
    "mimo_v2_flash": (
        "MiMoV2FlashForCausalLM",
        {
            **ROUTED,
            **WINDOW,
            "n_shared_experts": None,
            "first_k_dense_replace": None,
            "head_dim": 24,
            "v_head_dim": 12,
            "num_key_value_heads": 1,
            "num_hidden_layers": 7,
            "n_group": 2,
            "routed_scaling_factor": 1.7,
        },
    ),
    "minimax_m2": (
        "MiniMaxM2ForCausalLM",
        {
            **FEW,
            "head_dim": 16,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5},
        },
    ),
}
