"""Older folders, which have numbers elsewhere or not at all: the logits stay those of the newer form."""

import json

import numpy as np
import pytest

import edgeinfer
from edgeinfer import files
from tests.huggingface import golden


def older(config):
    """config.json as it was before rope_parameters: the base and a share beside the other numbers, scaling apart."""
    found = dict(config.pop("rope_parameters"))
    config["rope_theta"] = found.pop("rope_theta")
    if "partial_rotary_factor" in found:
        config["partial_rotary_factor"] = found.pop("partial_rotary_factor")
    kind = found.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **found}
    return config


def difference(folder, expected):
    """The largest one of the folder's logits, in deviations of those expected."""
    with edgeinfer.LLM(folder, n_ctx=32, backend="reference") as llm:
        return np.abs(llm.logits(golden.IDS) - expected).max() / expected.std()


@pytest.mark.parametrize(
    "name", ["llama", "llama-bias-linear", "llama-yarn", "phi", "phi3-longrope", "stablelm", "gpt_neox-serial", "qwen3"]
)
def test_older_folders_turn_alike(tmp_path, name):
    config, shapes, expected = golden.load(name)
    golden.write_folder(tmp_path, older(config), shapes)
    assert "rope_parameters" not in json.loads((tmp_path / "config.json").read_text())
    assert difference(tmp_path, expected) < 1e-3


def test_a_base_that_was_lost_would_show(tmp_path):
    config, shapes, expected = golden.load("llama-bias-linear")
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    golden.write_folder(tmp_path, config, shapes)
    assert difference(tmp_path, expected) > 0.01


def test_older_gemma_3_has_the_local_base_beside_it(tmp_path):
    config, shapes, expected = golden.load("gemma3")
    bases = config.pop("rope_parameters")
    config["rope_theta"] = bases["full_attention"]["rope_theta"]
    config["rope_local_base_freq"] = bases["sliding_attention"]["rope_theta"]
    config["sliding_window_pattern"] = config.pop("_sliding_window_pattern")
    del config["layer_types"]
    golden.write_folder(tmp_path, config, shapes)
    assert difference(tmp_path, expected) < 1e-3


def test_gemma_3_takes_what_config_json_leaves_out(tmp_path):
    """As in the folders of the 4B: all numbers that the class has by itself."""
    config, shapes, expected = golden.load("gemma3-defaults")
    left_out = (
        "num_attention_heads num_key_value_heads head_dim query_pre_attn_scalar max_position_embeddings rms_norm_eps"
    )
    for key in (*left_out.split(), "rope_parameters", "_sliding_window_pattern", "sliding_window", "layer_types"):
        del config[key]
    golden.write_folder(tmp_path, config, shapes)
    assert difference(tmp_path, expected) < 1e-3


@pytest.mark.parametrize("name", ["gpt2", "bloom"])
def test_folders_of_the_inner_model_leave_its_name_out(tmp_path, name):
    config, shapes, expected = golden.load(name)
    folder = golden.write_folder(tmp_path, config, shapes)
    tensors = {full.removeprefix("transformer."): golden.weights(full, shape) for full, shape in shapes.items()}
    golden.write_safetensors(folder / "model.safetensors", tensors | {"h.0.attn.bias": np.ones((1, 1, 8, 8), "<f4")})
    assert difference(tmp_path, expected) < 1e-3


def test_experts_may_be_transposed(tmp_path):
    """As in the folders of Qwen3-VL: [experts, dim, 2 * width] and [experts, width, dim]."""
    config, shapes, expected = golden.load("qwen3_vl_moe")
    golden.write_folder(tmp_path, config, shapes)
    tensors = {name: golden.weights(name, shape) for name, shape in shapes.items()}
    turned = [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]
    assert len(turned) == 4
    tensors |= {name: np.ascontiguousarray(tensors[name].swapaxes(1, 2)) for name in turned}
    golden.write_safetensors(tmp_path / "model.safetensors", tensors)
    assert difference(tmp_path, expected) < 1e-3


def test_older_hunyuan_vl_has_another_name_for_its_rope(tmp_path):
    config, shapes, expected = golden.load("hunyuan_vl")
    text = config["text_config"]
    stated = text.pop("rope_parameters")
    text["rope_theta"] = stated.pop("rope_theta")
    text["rope_scaling"] = {"type": "xdrope", "alpha": stated["alpha"], "xdrope_section": stated["mrope_section"]}
    golden.write_folder(tmp_path, config, shapes)
    assert difference(tmp_path, expected) < 1e-3


def test_bert_s_first_folders_have_gamma_and_beta(tmp_path):
    config, shapes, rows = golden.load("encoders/bert")
    golden.write_folder(tmp_path, config, shapes)
    older = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {}
    for name, shape in shapes.items():
        stem, _, ending = name.rpartition("LayerNorm.")
        tensors[stem + older[f"LayerNorm.{ending}"] if stem else name] = golden.weights(name, shape)
    assert sum(name.endswith("gamma") for name in tensors) == 5
    golden.write_safetensors(tmp_path / "model.safetensors", tensors)
    with edgeinfer.LLM(tmp_path, n_ctx=32, backend="reference") as llm:
        found = llm.embed([golden.IDS], "cls", normalize=False)[0]
    assert np.abs(found - rows[0]).max() < 1e-3 * rows.std()


def test_older_nomic_has_other_names_for_its_numbers(tmp_path):
    config, shapes, rows = golden.load("encoders/nomic_bert")
    numbers = {"hidden_size": "n_embd", "num_attention_heads": "n_head", "intermediate_size": "n_inner"}
    numbers |= {"num_hidden_layers": "n_layer", "layer_norm_eps": "layer_norm_epsilon"}
    older = {numbers[name]: config[name] for name in numbers} | {"n_positions": 64, "activation_function": "swiglu"}
    older |= {"rotary_emb_base": config["rope_parameters"]["rope_theta"], "rotary_emb_fraction": 1.0}
    older |= {name: config[name] for name in ("architectures", "vocab_size", "type_vocab_size")}
    golden.write_folder(tmp_path, older, shapes)
    with edgeinfer.LLM(tmp_path, n_ctx=32, backend="reference") as llm:
        found = llm.embed([golden.IDS], "cls", normalize=False)[0]
    assert np.abs(found - rows[0]).max() < 1e-3 * rows.std()


def test_mimo_s_own_folders_have_other_names_for_its_windows(tmp_path):
    config, shapes, expected = golden.load("mimo_v2_flash")
    bases = config.pop("rope_parameters")
    config["rope_theta"], config["swa_rope_theta"] = (
        bases[f"{kind}_attention"]["rope_theta"] for kind in ("full", "sliding")
    )
    config["partial_rotary_factor"] = bases["full_attention"]["partial_rotary_factor"]
    config["hybrid_layer_pattern"] = [int(kind == "sliding_attention") for kind in config.pop("layer_types")]
    config["swa_num_key_value_heads"] = 2 * config["num_key_value_heads"]
    config["sliding_window_size"] = config.pop("sliding_window") - 1
    config["sliding_window"] = config["sliding_window_size"]  # which here is without the token itself
    config["layernorm_epsilon"] = config.pop("rms_norm_eps")
    del config["mlp_layer_types"]
    golden.write_folder(tmp_path, config, {**shapes, "model.mtp.layers.0.input_layernorm.weight": (32,)})
    assert difference(tmp_path, expected) < 1e-3


def test_step_s_own_folders_list_numbers_by_layer(tmp_path):
    """With one more of each for the layer that predicts further tokens."""
    config, shapes, expected = golden.load("step3p5")
    kinds, ropes = config["layer_types"], config.pop("rope_parameters")
    config["rope_theta"] = [ropes[kind].pop("rope_theta") for kind in ("full_attention", "sliding_attention")] * 2 + [1]
    config["partial_rotary_factors"] = [ropes[kind]["partial_rotary_factor"] for kind in kinds] + [0.5]
    config["rope_scaling"] = {"yarn_only_types": ["full_attention"], **ropes["full_attention"]}
    config["layer_types"] = [*kinds, "full_attention"]
    config["swiglu_limits"] = [number or None for number in config["swiglu_limits"]] + [0.1]
    config["num_attention_groups"] = config.pop("num_key_value_heads")
    config["moe_num_experts"], config["moe_top_k"] = config.pop("n_routed_experts"), config.pop("num_experts_per_tok")
    del config["mlp_layer_types"]
    golden.write_folder(tmp_path, config, {**shapes, "model.layers.4.eh_proj.weight": (32, 64)})
    assert difference(tmp_path, expected) < 1e-3


def test_dots_note_s_own_folders_have_sizes_of_windows_beside_the_others(tmp_path):
    config, shapes, expected = golden.load("dots3_note")
    bases = config.pop("rope_parameters")
    config["rope_theta"] = bases["indexed_attention"]["rope_theta"]
    config["swa_rope_theta"] = bases["sliding_attention"]["rope_theta"]
    config["sliding_window_size"] = config.pop("sliding_window")
    config["moe_shared_expert_intermediate_size"] = config.pop("shared_experts_intermediate_size")
    config["layer_types"] = [kind.replace("indexed", "full") for kind in config["layer_types"]]
    config["vision_config"] = {}
    del config["per_layer_config"]
    more = {"vision_encoder.norm.weight": (32,), "model.mtp.embed_tokens.weight": (96, 32)}
    golden.write_folder(tmp_path, config, {**shapes, **more})
    assert difference(tmp_path, expected) < 1e-3


def test_minimax_m3_s_own_folders_have_a_part_for_sparse_attention(tmp_path):
    config, shapes, expected = golden.load("minimax_m3")
    text = config["text_config"]
    names = {"n_heads": "num_index_heads", "head_dim": "index_dim", "topk_blocks": "topk_blocks"}
    names |= {"block_size": "block_size", "local_blocks": "local_block"}
    sparse = {f"sparse_{name}": text.pop(f"index_{here}") for here, name in names.items()}
    text["sparse_attention_config"] = sparse | {"sparse_attention_freq": [0, 1, 1]}
    text["moe_layer_freq"], text["hidden_act"] = [0, 1, 1], "swigluoai"
    del text["mlp_layer_types"], text["layer_types"]
    golden.write_folder(tmp_path, config, shapes)
    assert difference(tmp_path, expected) < 1e-3


def test_ling_s_own_folders_may_limit_activations(tmp_path):
    """Which transformers' class does not: limits that nothing reaches change nothing, others are GGUF's keys."""
    config, shapes, expected = golden.load("bailing_hybrid-hub")
    experts, shared = "expert_swiglu_limit_list", "share_expert_swiglu_limit_list"
    for limit, least, most in ((1e3, 0.0, 1e-3), (0.3, 1e-2, np.inf)):
        folder = golden.write_folder(
            tmp_path / str(limit), {**config, experts: [None, *[limit] * 4], shared: []}, shapes
        )
        with edgeinfer.LLM(folder, n_ctx=32, backend="reference") as llm:
            assert least <= np.abs(llm.logits(golden.IDS) - expected).max() / expected.std() < most
        with files.open(folder) as file:
            assert list(file.metadata["bailingmoe3.swiglu_clamp_exp"]) == [0, *[np.float32(limit)] * 3]
            assert "bailingmoe3.swiglu_clamp_shexp" not in file.metadata


def test_hunyuan_4_s_own_folders_have_layers_that_predict_further_tokens_apart(tmp_path):
    config, shapes, expected = golden.load("hy_v4")
    del config["mlp_layer_types"], config["layer_types"]
    config |= {"num_key_value_heads": 2, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1}
    golden.write_folder(tmp_path, config, {**shapes, "model.mtp_layers.0.eh_proj.weight": (32, 64)})
    assert difference(tmp_path, expected) < 1e-3


def test_glm_5_3_s_own_folders_have_a_part_for_linear_attention(tmp_path):
    config, shapes, expected = golden.load("glm5_next")
    text = config["text_config"]
    text["linear_attn_config"] = {
        "head_dim": text.pop("linear_head_dim"),
        "num_heads": text.pop("linear_num_heads"),
        "short_conv_kernel_size": text.pop("linear_conv_kernel_dim"),
        "gate_lower_bound": text.pop("linear_lower_bound"),
    }
    del text["mlp_layer_types"], text["layer_types"]
    text |= {"first_k_dense_replace": 1, "num_nextn_predict_layers": 1}
    golden.write_folder(tmp_path, config, {**shapes, "model.language_model.layers.4.eh_proj.weight": (32, 64)})
    assert difference(tmp_path, expected) < 1e-3
