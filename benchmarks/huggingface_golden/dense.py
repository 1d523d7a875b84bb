"""Dense transformers that generate."""

from __future__ import annotations

from benchmarks.huggingface_golden.settings import OWN, SCALES, WINDOW, YARN, Cases

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0, 3.0],
    "long_factor": [2.0, 3.0, 4.0, 5.0],
    "rope_theta": 10000.0,
}
WHOLE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
GPT2 = {**OWN, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}

CASES: Cases = {
    "bitnet": ("BitNetForCausalLM", {"hidden_act": "silu", "tie_word_embeddings": True}),
    "bitnet-relu2": ("BitNetForCausalLM", {"hidden_size": 256, "intermediate_size": 256}),
    "internlm3": ("internlm3", {"head_dim": 16, "qkv_bias": True, "bias": True}),
    "llama": ("LlamaForCausalLM", {"rope_parameters": LLAMA3}),
    "llama-bias-linear": (
        "LlamaForCausalLM",
        {
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
        },
    ),
    "llama-yarn": ("LlamaForCausalLM", {"rope_parameters": YARN, "head_dim": 12}),
    "xverse": ("LlamaForCausalLM", {"num_key_value_heads": 4}),
    "internlm2": ("LlamaForCausalLM", {}),
    "orion": (
        "StableLmForCausalLM",
        {"rope_parameters": WHOLE, "layer_norm_eps": 1e-4, "rms_norm_eps": 1e-4},
    ),
    "minicpm": (
        "GraniteForCausalLM",
        {
            **{"scale_emb": 3.0, "scale_depth": 1.4, "dim_model_base": 16},
            **{"embedding_multiplier": 3.0, "residual_multiplier": 1.4 / 2**0.5, "logits_scaling": 2.0},
            "attention_multiplier": 8**-0.5,
        },
    ),
    "mistral": ("MistralForCausalLM", {"head_dim": 16}),
    "arcee": ("ArceeForCausalLM", {}),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 16}),
    "phi": ("PhiForCausalLM", {}),
    "phi3": ("Phi3ForCausalLM", {}),
    "phi3-longrope": ("Phi3ForCausalLM", {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "starcoder2": ("Starcoder2ForCausalLM", {}),
    "stablelm": ("StableLmForCausalLM", {"use_qkv_bias": True}),
    "stablelm-parallel": ("StableLmForCausalLM", {"qk_layernorm": True, "use_parallel_residual": True}),
    "olmo": ("OlmoForCausalLM", {"clip_qkv": 0.7}),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "olmo3": ("Olmo3ForCausalLM", {**WINDOW, "num_hidden_layers": 4}),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT2),
    "gpt_neox": ("GPTNeoXForCausalLM", {"num_key_value_heads": None}),
    "gpt_neox-serial": (
        "GPTNeoXForCausalLM",
        {
            "num_key_value_heads": None,
            "use_parallel_residual": False,
            "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "rope_type": "default"},
        },
    ),
    "falcon-7b": ("FalconForCausalLM", {"intermediate_size": None, "num_key_value_heads": None}),
    "falcon-40b": (
        "FalconForCausalLM",
        {
            "intermediate_size": None,
            "num_key_value_heads": None,
            "new_decoder_architecture": True,
            "num_kv_heads": 2,
            "bias": True,
        },
    ),
    "bloom": ("BloomForCausalLM", {"intermediate_size": None, "num_key_value_heads": None, "n_head": 4, "n_layer": 2}),
    "mpt": ("MptForCausalLM", {**OWN, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "mpt-hub": ("MptForCausalLM", {**OWN, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "cohere": ("CohereForCausalLM", {"use_qk_norm": True}),
    "cohere2": ("Cohere2ForCausalLM", {**WINDOW, "num_hidden_layers": 5}),
    "nemotron": ("NemotronForCausalLM", {}),
    "jais2": ("Jais2ForCausalLM", {}),
    "exaone": ("exaone", {"rope_parameters": LLAMA3}),
    "exaone4": (
        "Exaone4ForCausalLM",
        {"sliding_window": None, "sliding_window_pattern": None, "layer_types": ["full_attention"] * 2},
    ),
    "granite": ("GraniteForCausalLM", SCALES),
    "granite_swa": ("GraniteSWAForCausalLM", {**SCALES, **WINDOW}),
    "smollm3": ("SmolLM3ForCausalLM", {"num_hidden_layers": 4}),
    "ministral3": (
        "Ministral3ForCausalLM",
        {
            "head_dim": 16,
            "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
        },
    ),
    "seed_oss": ("SeedOssForCausalLM", {"head_dim": 16}),
    "ernie4_5": ("Ernie4_5ForCausalLM", {"head_dim": 16}),
    "glm": ("GlmForCausalLM", {"head_dim": 16}),
    "glm4": ("Glm4ForCausalLM", {"head_dim": 16}),
    "apertus": ("ApertusForCausalLM", {"rope_parameters": LLAMA3}),
    "hunyuan_dense": (
        "HunYuanDenseV1ForCausalLM",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 10000.0},
        },
    ),
}
