"""State spaces, short convolutions, gated delta networks, their mixtures with attention, and layers passed often."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import EXPERTS, FEW, ROUTED, SCALES, Cases

HYBRID = {
    **{"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 2, "mamba_chunk_size": 8},
    **{"num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"]},
}
DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    **{"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"], "head_dim": 16},
}
MULTIPLIERS = {
    **{"embedding_multiplier": 2.0, "lm_head_multiplier": 0.5, "attention_in_multiplier": 0.9, "key_multiplier": 0.8},
    **{"attention_out_multiplier": 0.7, "ssm_in_multiplier": 1.1, "ssm_out_multiplier": 0.6},
    **{"mlp_multipliers": [0.9, 1.2], "ssm_multipliers": [0.5, 1.5, 0.7, 1.3, 0.9]},
}

CASES: Cases = {
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", {**SCALES, **FEW, **HYBRID, "shared_intermediate_size": 40}),
    "granitemoehybrid-dense": (
        "GraniteMoeHybridForCausalLM",
        {**SCALES, **HYBRID, "num_local_experts": 0, "shared_intermediate_size": 40, "position_embedding_type": "rope"},
    ),
    "mamba": ("MambaForCausalLM", {"intermediate_size": 64, "state_size": 8}),
    "falcon_mamba": ("FalconMambaForCausalLM", {"intermediate_size": 64, "state_size": 8}),
    "mamba2": ("Mamba2ForCausalLM", {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "chunk_size": 8}),
    "jamba": (
        "JambaForCausalLM",
        {
            **FEW,
            "num_hidden_layers": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 0,
            "use_mamba_kernels": False,
            "mamba_d_state": 8,
        },
    ),
    "lfm2": (
        "Lfm2ForCausalLM",
        {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 16},
    ),
    "lfm2_moe": (
        "Lfm2MoeForCausalLM",
        {**EXPERTS, "num_hidden_layers": 3, "num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "nemotron_h": (
        "NemotronHForCausalLM",
        {
            **ROUTED,
            "intermediate_size": 40,
            "num_hidden_layers": None,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "n_groups": 2,
            "ssm_state_size": 8,
            "head_dim": 8,
            "moe_shared_expert_intermediate_size": 40,
            "chunk_size": 8,
        },
    ),
    "qwen3_next": ("Qwen3NextForCausalLM", {**EXPERTS, **DELTA, "shared_expert_intermediate_size": 40}),
    "qwen3_5": ("Qwen3_5ForCausalLM", DELTA),
    "qwen3_5_moe": ("Qwen3_5MoeForCausalLM", {**EXPERTS, **DELTA, "shared_expert_intermediate_size": 40}),
    "hrm_text": (
        "HrmTextForCausalLM",
        {"head_dim": 16, "num_key_value_heads": None, "prefix_lm": False, "embedding_scale": 3.0},
    ),
    "minimax": (
        "MiniMaxForCausalLM",
        {
            **FEW,
            "head_dim": 16,
            "num_hidden_layers": 6,
            "layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2,
            "block_size": 8,
            "rms_norm_eps": 1e-6,
            **{f"{branch}_alpha_factor": 1.5 for branch in ("full_attn", "linear_attn", "mlp")},
        },
    ),
    "falcon_h1": (
        "FalconH1ForCausalLM",
        {
            **MULTIPLIERS,
            "mamba_d_ssm": 64,
            "mamba_n_heads": 4,
            "mamba_d_head": 16,
            "mamba_d_state": 8,
            "mamba_n_groups": 2,
            "mamba_chunk_size": 8,
        },
    ),
}
