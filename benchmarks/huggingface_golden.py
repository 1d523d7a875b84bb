"""Writes tests/huggingface/golden: what small random models of every class give, by Hugging Face's transformers.

    python benchmarks/huggingface_golden.py [CASE ...]

Needs torch and transformers, which edgeinfer itself does not.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors import safe_open
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tests.huggingface import golden  # noqa: E402

BASE = {
    **{"vocab_size": golden.VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FEW = {**EXPERTS, "moe_intermediate_size": None}  # as wide as the dense feed-forward would be
MLA = {
    **{"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 2},
    **{"first_k_dense_replace": 1, "num_key_value_heads": 4},
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
MSCALE = {"mscale": 0.7, "mscale_all_dim": 0.7}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0, 3.0],
    "long_factor": [2.0, 3.0, 4.0, 5.0],
    "rope_theta": 10000.0,
}
ROUTED = {**EXPERTS, "num_hidden_layers": 3, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
SCALES = {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 2.0}
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
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
WINDOW = {"sliding_window": 6}
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
QWEN_VISION = {
    **{"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 32},
    **{"num_position_embeddings": 16},
}
NO_EPS = {"rms_norm_eps": 1e-8}  # GGUF's Qwen2-VL has none
LEFT_OUT = {*BASE, "moe_intermediate_size"}  # where a case says None
OWN = {name: None for name in ("hidden_size", "intermediate_size", "num_key_value_heads")}  # to leave out of BASE
GPT2 = {**OWN, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}

STATED = {  # the class that such folders state
    "exaone": "ExaoneForCausalLM",
    "mpt-hub": "MPTForCausalLM",
    "gemma3n-text-part": "Gemma3nForConditionalGeneration",
}
PARTS = ("gemma3n-text-part",)  # of a model whose other parts want further libraries: made alone, named as in the whole

# name: class of the config, what differs from BASE, and the class of the model where the config's own is not meant
CASES: dict[str, tuple[str, dict[str, object]]] = {
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
    "mistral": ("MistralForCausalLM", {"head_dim": 16}),
    "mixtral": ("MixtralForCausalLM", FEW),
    "arcee": ("ArceeForCausalLM", {}),
    "qwen2": ("Qwen2ForCausalLM", {}),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        {**EXPERTS, "shared_expert_intermediate_size": 40, "num_hidden_layers": 3, "mlp_only_layers": [1]},
    ),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 16}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True}),
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
    "phi": ("PhiForCausalLM", {}),
    "phi3": ("Phi3ForCausalLM", {}),
    "phi3-longrope": ("Phi3ForCausalLM", {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "starcoder2": ("Starcoder2ForCausalLM", {}),
    "stablelm": ("StableLmForCausalLM", {"use_qkv_bias": True}),
    "stablelm-parallel": ("StableLmForCausalLM", {"qk_layernorm": True, "use_parallel_residual": True}),
    "olmo": ("OlmoForCausalLM", {"clip_qkv": 0.7}),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "olmo3": ("Olmo3ForCausalLM", {**WINDOW, "num_hidden_layers": 4}),
    "olmoe": ("OlmoeForCausalLM", {**EXPERTS, "intermediate_size": 24}),
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
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**MLA}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {**MLA, "n_group": 2, "topk_group": 1, "num_hidden_layers": 3}),
    "deepseek_v2-yarn": ("DeepseekV2ForCausalLM", {**MLA, "rope_parameters": {**YARN, **MSCALE}, "q_lora_rank": None}),
    "deepseek_v3-yarn": (
        "DeepseekV3ForCausalLM",
        {**MLA, "n_group": 2, "topk_group": 1, "rope_parameters": {**YARN, **MSCALE}},
    ),
    "nemotron": ("NemotronForCausalLM", {}),
    "jais2": ("Jais2ForCausalLM", {}),
    "exaone": ("exaone", {"rope_parameters": LLAMA3}),
    "exaone4": (
        "Exaone4ForCausalLM",
        {"sliding_window": None, "sliding_window_pattern": None, "layer_types": ["full_attention"] * 2},
    ),
    "exaone_moe": ("ExaoneMoeForCausalLM", {**ROUTED, **WINDOW, "num_hidden_layers": 5, "num_shared_experts": 1}),
    "dots1": ("Dots1ForCausalLM", ROUTED),
    "glm4_moe": ("Glm4MoeForCausalLM", {**ROUTED, "use_qk_norm": True, "attention_bias": True}),
    "granite": ("GraniteForCausalLM", SCALES),
    "granitemoe": ("GraniteMoeForCausalLM", {**SCALES, **FEW}),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", {**SCALES, **FEW, "shared_intermediate_size": 40}),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", {**SCALES, **FEW, **HYBRID, "shared_intermediate_size": 40}),
    "granitemoehybrid-dense": (
        "GraniteMoeHybridForCausalLM",
        {**SCALES, **HYBRID, "num_local_experts": 0, "shared_intermediate_size": 40, "position_embedding_type": "rope"},
    ),
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
    "ernie4_5_moe": (
        "Ernie4_5_MoeForCausalLM",
        {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24, "num_hidden_layers": 3},
    ),
    "glm": ("GlmForCausalLM", {"head_dim": 16}),
    "glm4": ("Glm4ForCausalLM", {"head_dim": 16}),
    "gpt_oss": ("GptOssForCausalLM", {**FEW, **WINDOW, "head_dim": 16, "rope_parameters": {**YARN, "truncate": False}}),
    "gpt_oss-mxfp4": (
        "GptOssForCausalLM",
        {**FEW, **WINDOW, "hidden_size": 64, "intermediate_size": 64, "rope_parameters": YARN, "head_dim": 16},
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
    "apertus": ("ApertusForCausalLM", {"rope_parameters": LLAMA3}),
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
    "hunyuan_dense": (
        "HunYuanDenseV1ForCausalLM",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 10000.0},
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
    "minicpm3": ("MiniCPM3ForCausalLM", {**MLA, "hidden_size": 32}),
    "minimax_m2": (
        "MiniMaxM2ForCausalLM",
        {
            **FEW,
            "head_dim": 16,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5},
        },
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
    "qwen3_5-text-part": (
        "Qwen3_5ForConditionalGeneration",
        {"text_config": {**BASE, **DELTA}, "vision_config": QWEN_VISION},
    ),
    "qwen3_5_moe-text-part": (
        "Qwen3_5MoeForConditionalGeneration",
        {
            "text_config": {**BASE, **EXPERTS, **DELTA, "shared_expert_intermediate_size": 40},
            "vision_config": QWEN_VISION,
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
    "gemma3-text-part": (
        "Gemma3ForConditionalGeneration",
        {"text_config": {**BASE, **WINDOW, "head_dim": 16, "query_pre_attn_scalar": 16}, "vision_config": VISION},
    ),
    "mistral3-text-part": (
        "Mistral3ForConditionalGeneration",
        {
            "text_config": {**BASE, "model_type": "mistral", "head_dim": 16},
            "vision_config": {**VISION, "model_type": "pixtral"},
        },
    ),
    "qwen2_vl": (
        "Qwen2VLForConditionalGeneration",
        {
            "text_config": {**BASE, **NO_EPS, "rope_parameters": MROPE},
            "vision_config": {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 1},
        },
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VLForConditionalGeneration",
        {
            "text_config": {**BASE, **NO_EPS, "rope_parameters": MROPE},
            "vision_config": {
                "depth": 1,
                "hidden_size": 32,
                "out_hidden_size": 32,
                "num_heads": 2,
                "intermediate_size": 32,
            },
        },
    ),
    "qwen3_vl": (
        "Qwen3VLForConditionalGeneration",
        {
            "text_config": {**BASE, "head_dim": 16, "rope_parameters": {**MROPE, "mrope_section": [4, 2, 2]}},
            "vision_config": {
                "depth": 1,
                "hidden_size": 32,
                "out_hidden_size": 32,
                "num_heads": 2,
                "intermediate_size": 32,
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0],
            },
        },
    ),
    "llama4-text-part": (
        "Llama4ForConditionalGeneration",
        {
            "text_config": {
                **BASE,
                **EXPERTS,
                "num_experts_per_tok": 1,
                "head_dim": 16,
                "intermediate_size": 24,
                "intermediate_size_mlp": 40,
            },
            "vision_config": {**VISION, "vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32},
        },
    ),
    "gemma3n": ("Gemma3nForCausalLM", GEMMA3N),
    "gemma3n-text-part": ("Gemma3nForCausalLM", {**GEMMA3N, "rms_norm_eps": 1e-3}),
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
    "gemma4-text-part": (
        "Gemma4ForConditionalGeneration",
        {
            "text_config": {**BASE, **GEMMA4, "hidden_size_per_layer_input": 0},
            "vision_config": None,
            "audio_config": None,
        },
    ),
}
BERT = {"num_key_value_heads": None, "type_vocab_size": 2, "num_labels": 1, "layer_norm_eps": 1e-5}
ROBERTA = {**BERT, "type_vocab_size": 1, "pad_token_id": 4}  # not among the ids
DISTILLED = {**OWN, "dim": 32, "hidden_dim": 48, "n_heads": 4, "n_layers": 2, "num_labels": 1}
MODERN = {
    **{"num_key_value_heads": None, "num_hidden_layers": 4, "local_attention": 8},
    **{"num_labels": 1, "classifier_pooling": "mean"},
}
ENCODERS: dict[str, tuple[str, dict[str, object]]] = {
    "bert": ("BertModel", BERT),
    "bert-ranks": ("BertForSequenceClassification", BERT),
    "distilbert": ("DistilBertModel", DISTILLED),
    "distilbert-ranks": ("DistilBertForSequenceClassification", DISTILLED),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta-ranks": ("RobertaForSequenceClassification", ROBERTA),
    "xlm_roberta": ("XLMRobertaModel", ROBERTA),
    "xlm_roberta-ranks": ("XLMRobertaForSequenceClassification", ROBERTA),
    "modernbert": ("ModernBertModel", MODERN),
    "modernbert-ranks": ("ModernBertForSequenceClassification", MODERN),
    "qwen3-ranks": ("Qwen3ForSequenceClassification", {"head_dim": 16, "num_labels": 1}),
}


def sample_deviation(x: torch.Tensor, dim: int, keepdim: bool, unbiased: bool) -> torch.Tensor:
    """That of all numbers where transformers takes it, of a sample in GGUF's Gemma 3n: the same for real widths."""
    return ((x - x.mean(dim, keepdim)) ** 2).sum(dim, keepdim).div(x.shape[dim] - 1).sqrt()


def make(name: str) -> None:
    wanted, changes = {**CASES, **ENCODERS}[name]
    settings = {key: value for key, value in {**BASE, **changes}.items() if value is not None or key not in LEFT_OUT}
    if wanted.islower():  # by the type of its config, where transformers has another class for it
        config, model_class = transformers.AutoConfig.for_model(wanted, **settings), transformers.AutoModelForCausalLM
        model = model_class.from_config(config)
    else:
        model_class = getattr(transformers, wanted)
        model = model_class(model_class.config_class(**settings))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = pathlib.Path(folder, "model.safetensors")
        with safe_open(path, "np") as file:
            shapes = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
        tensors, kept = {}, {}
        for key, shape in shapes.items():
            if name.endswith("mxfp4") and key.endswith(("gate_up_proj", "down_proj")):
                experts, cols, rows = shape  # transposed; the blocks are not
                parts = {f"{key}_blocks": (experts, rows, cols // 32, 16), f"{key}_scales": (experts, rows, cols // 32)}
                blocks, scales = (torch.from_numpy(golden.weights(part, size)) for part, size in parts.items())
                tensors[key] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).contiguous().numpy()
                kept |= parts
            else:
                stored = key.replace("model.", "model.language_model.", 1) if name in PARTS else key
                tensors[key], kept[stored] = golden.weights(stored, shape), shape
        shapes = kept
        golden.write_safetensors(path, tensors)
        model = model_class.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        saved = json.loads(pathlib.Path(folder, "config.json").read_text())
    if name in ENCODERS:
        keep(name, saved, shapes, **encoded(model))
        return
    if wanted == "Llama4ForConditionalGeneration":  # which fails without a picture
        model = model.language_model
    with torch.no_grad(), mock.patch.object(torch, "std", sample_deviation):
        logits = model(torch.tensor([golden.IDS]), use_cache=False).logits[0].numpy()
    assert np.isfinite(logits).all() and logits.std() > 0.05, (name, logits.std())
    saved = {"text_config": saved} if name in PARTS else saved
    saved["architectures"] = [STATED.get(name, wanted)]
    if name.endswith("mxfp4"):
        saved["quantization_config"] = {"quant_method": "mxfp4"}
    keep(name, saved, shapes, logits=logits)


@torch.no_grad()
def encoded(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The last row of each token, and the score where the model gives one."""
    ids = torch.tensor([golden.IDS])
    rows = {"rows": model.base_model(ids).last_hidden_state[0].numpy()}
    return rows | ({"score": model(ids).logits[0].numpy()} if "SequenceClassification" in type(model).__name__ else {})


def keep(name: str, config: dict[str, object], shapes: dict[str, tuple[int, ...]], **numbers: np.ndarray) -> None:
    config = {key: value for key, value in config.items() if key not in ("transformers_version", "dtype")}
    folder = golden.ENCODERS if name in ENCODERS else golden.FOLDER
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", config=json.dumps(config), shapes=json.dumps(shapes), **numbers)
    print(name, *(f"{kind}: deviation {x.std():.2f}" for kind, x in numbers.items()))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for case in sys.argv[1:] or [*CASES, *ENCODERS]:
        make(case)
