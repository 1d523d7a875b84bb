"""The text part of models that also see."""

from __future__ import annotations

from benchmarks.huggingface_golden.dense import LLAMA3
from benchmarks.huggingface_golden.gemma import GEMMA3N, GEMMA4
from benchmarks.huggingface_golden.latent import GROWING, MLA, STREAMS
from benchmarks.huggingface_golden.recurrent import DELTA
from benchmarks.huggingface_golden.settings import BASE, EXPERTS, ROUTED, WINDOW, Cases
from edgeinfer.models.chameleon import PICTURES
from tests.huggingface import golden

MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
QWEN_BLOCKS = {"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
QWEN_VISION = {**QWEN_BLOCKS, "num_position_embeddings": 16}
SEEING = {**QWEN_VISION, "deepstack_visual_indexes": [0]}
NO_EPS = {"rms_norm_eps": 1e-8}  # GGUF's Qwen2-VL has none
STEP = {
    **{**BASE, **WINDOW, "head_dim": 16, "num_hidden_layers": 4, "num_sliding_attention_heads": 6},
    **{"layer_types": ["full_attention", "sliding_attention"] * 2, "mlp_layer_types": ["dense", *["sparse"] * 3]},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "share_expert_dim": 40},
    **{"swiglu_limits": [0, 0, 0.4, 0.5], "swiglu_limits_shared": [0.6, 0, 0.5, 0], "moe_router_scaling_factor": 1.7},
    "rope_parameters": {
        "full_attention": {**LLAMA3, "partial_rotary_factor": 0.5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0},
    },
}
IN_BLOCKS = {
    **{**BASE, **EXPERTS, "intermediate_size": 24, "shared_intermediate_size": 48, "dense_intermediate_size": 40},
    **{"head_dim": 16, "rotary_dim": 8, "num_hidden_layers": 3, "mlp_layer_types": ["dense", "sparse", "sparse"]},
    **{"index_n_heads": 2, "index_head_dim": 16, "index_block_size": 16, "index_topk_blocks": 1},
    **{"index_local_blocks": 0, "layer_types": ["full_attention", *["minimax_m3_sparse"] * 2]},
    "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
}
POOLED = {
    **{**BASE, **MLA, "qk_rope_head_dim": 0, "n_shared_experts": 1, "num_hidden_layers": 4, "linear_head_dim": 16},
    **{"linear_num_heads": 4, "swiglu_limit": 0.8},
    **{"mlp_layer_types": ["dense", *["sparse"] * 3], "index_n_heads": 8, "index_head_dim": 16, "index_topk": 8},
    "layer_types": ["linear_attention", "indexed_attention", "indexed_attention", "linear_attention"],
    **{"index_kpool": 4, "hc_sinkhorn_iters": 4, "indexer_types": ["full", "full", "shared", "full"]},
}
GLM4V = {**MROPE, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}
GLM_BLOCKS = {**VISION, "depth": 1, "out_hidden_size": 32, "num_heads": 2}
SAM = {**VISION, "output_channels": 16, "image_size": 64, "patch_size": 16, "mlp_dim": 32, "global_attn_indexes": [0]}
READING: dict[str, object] = {
    "text_config": {**BASE, **ROUTED, "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "vision_config": {"sam_config": SAM, "encoder_config": {**VISION, "num_key_value_heads": 2}},
}
PIXELS = {"base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1, "resolution": 32, "latent_channels": 8}
DRAWING = {
    **{"vocab_size": PICTURES.stop + golden.VOCAB, "num_key_value_heads": 4},
    "vocabulary_map": {"<image>": PICTURES.stop, **{f"IMGIMG{i}Z": i for i in range(PICTURES.start, PICTURES.stop)}},
    "vq_config": {**PIXELS, "embed_dim": 8, "num_embeddings": 8},
}

CASES: Cases = {
    "chameleon": ("ChameleonForConditionalGeneration", DRAWING),
    "chameleon-34b": ("ChameleonForConditionalGeneration", {**DRAWING, "swin_norm": True}),
    "hy_v4_vl": (
        "HYV4VLForConditionalGeneration",
        {
            "text_config": {**BASE, **STREAMS, "rope_parameters": {**MROPE, "mrope_section": [1, 1, 0]}},
            "vision_config": {**VISION, "out_hidden_size": 32, "max_image_size": 32, "patch_size": 16},
        },
    ),
    "minimax_m3": (
        "MiniMaxM3SparseForConditionalGeneration",
        {"text_config": IN_BLOCKS, "vision_config": VISION, "projector_hidden_size": 32},
    ),
    "glm5_next": (
        "Glm5NextForConditionalGeneration",
        {"text_config": POOLED, "vision_config": GLM_BLOCKS},
    ),
    "deepseek": ("DeepseekOcr2ForConditionalGeneration", READING),
    "bailing_moe": ("DeepseekOcr2ForConditionalGeneration", READING),
    "deepseek_ocr2": ("DeepseekOcr2ForConditionalGeneration", READING),
    "glm4v": (
        "Glm4vForConditionalGeneration",
        {
            "text_config": {**BASE, "rope_parameters": {**GLM4V, "mrope_section": [1, 1, 0]}},
            "vision_config": GLM_BLOCKS,
        },
    ),
    "glm_ocr": (
        "GlmOcrForConditionalGeneration",
        {"text_config": {**BASE, "head_dim": 16, "rope_parameters": GLM4V}, "vision_config": GLM_BLOCKS},
    ),
    "glm4v_moe": (
        "Glm4vMoeForConditionalGeneration",
        {"text_config": {**BASE, **ROUTED, "head_dim": 16, "rope_parameters": GLM4V}, "vision_config": GLM_BLOCKS},
    ),
    "hunyuan_vl": (
        "HunYuanVLForConditionalGeneration",
        {
            "text_config": {
                **BASE,
                "head_dim": 16,
                "rope_parameters": {
                    "rope_type": "dynamic",
                    "alpha": 50.0,
                    "factor": 1.0,
                    "rope_theta": 10000.0,
                    "mrope_section": [2, 2, 2, 2],
                },
            },
            "vision_config": {**VISION, "out_hidden_size": 32, "text_hidden_size": 32},
        },
    ),
    "muse_glimmer": (
        "MuseGlimmerForConditionalGeneration",
        {
            "text_config": {**BASE, **WINDOW, "head_dim": 16, "num_hidden_layers": 5},
            "vision_config": {**VISION, "pos_emb_height": 2, "pos_emb_width": 2, "layer_types": ["full_attention"]},
            "out_hidden_size": 128,
            "projector_hidden_size": 32,
        },
    ),
    "step3p7": ("Step3p7ForConditionalGeneration", {"text_config": STEP, "vision_config": VISION}),
    "step3p5": ("Step3p7ForConditionalGeneration", {"text_config": STEP, "vision_config": VISION}),
    "paddleocr_vl": (
        "PaddleOCRVLForConditionalGeneration",
        {
            "text_config": {**BASE, "head_dim": 16, "rope_parameters": {**MROPE, "mrope_section": [2, 3, 3]}},
            "vision_config": VISION,
        },
    ),
    "qwen3_vl_moe": (
        "Qwen3VLMoeForConditionalGeneration",
        {
            "text_config": {
                **BASE,
                **EXPERTS,
                "head_dim": 16,
                "rope_parameters": {**MROPE, "mrope_section": [4, 2, 2]},
            },
            "vision_config": SEEING,
        },
    ),
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
    "mistral4-text-part": (
        "Mistral3ForConditionalGeneration",
        {
            "text_config": {**BASE, **MLA, "model_type": "mistral4", "rope_parameters": GROWING},
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
            "vision_config": QWEN_BLOCKS,
        },
    ),
    "qwen3_vl": (
        "Qwen3VLForConditionalGeneration",
        {
            "text_config": {**BASE, "head_dim": 16, "rope_parameters": {**MROPE, "mrope_section": [4, 2, 2]}},
            "vision_config": SEEING,
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
    "gemma3n-text-part": ("Gemma3nForCausalLM", {**GEMMA3N, "rms_norm_eps": 1e-3}),
    "gemma4-text-part": (
        "Gemma4ForConditionalGeneration",
        {
            "text_config": {**BASE, **GEMMA4, "hidden_size_per_layer_input": 0},
            "vision_config": None,
            "audio_config": None,
        },
    ),
}
