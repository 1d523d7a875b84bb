"""Folders of which transformers has no class: names of their authors' own code, vectors as of `tests.models`."""

import numpy as np
import pytest

import edgeinfer
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.huggingface.convert import convert
from tests.huggingface import golden
from tests.models.encoders import CASES, DIM, EXPERTS, FF, HEADS, TEXTS
from tests.models.test_encoders import GOLDEN, near

EMBEDDING = {"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings"}
JINA = EMBEDDING | {
    **{"token_embd_norm": "embeddings.LayerNorm", "attn_q": "attention.self.query", "attn_k": "attention.self.key"},
    **{"attn_v": "attention.self.value", "attn_output": "attention.output.dense", "attn_norm_2": "layer_norm_1"},
    **{"attn_output_norm": "attention.output.LayerNorm", "attn_q_norm": "attention.self.layer_norm_q"},
    **{"attn_k_norm": "attention.self.layer_norm_k"},
}
FIRST = JINA | {"ffn_down": "mlp.wo", "layer_output_norm": "mlp.layernorm", "ffn_up": "mlp.gated_layers"}
CODE = JINA | {"ffn_down": "mlp.down_layer", "layer_output_norm": "layer_norm_2"}
NOMIC = EMBEDDING | {
    **{"token_embd_norm": "emb_ln", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj"},
    **{"attn_output_norm": "norm1", "layer_output_norm": "norm2", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
    **{"ffn_gate_inp": "mlp.router.layer"},
}
JINA_CONFIG = {
    **{"hidden_size": DIM, "num_attention_heads": HEADS, "intermediate_size": FF, "num_hidden_layers": 3},
    **{"layer_norm_eps": 1e-5, "max_position_embeddings": 96, "type_vocab_size": 2, "feed_forward_type": "geglu"},
}
NOMIC_CONFIG = {
    **{"architectures": ["NomicBertModel"], "n_embd": DIM, "n_head": HEADS, "n_inner": FF, "n_layer": 3},
    **{"n_positions": 96, "layer_norm_epsilon": 1e-5, "activation_function": "gelu", "rotary_emb_base": 10000},
    **{"moe_every_n_layers": 2, "num_experts": EXPERTS, "moe_top_k": 2, "type_vocab_size": 1},
}


def renamed(case, names, layer):
    """The case's tensors by the folder's names; those of which `names` has none keep GGUF's."""
    found = {}
    for full, x in CASES[case].tensors().items():
        *block, name, ending = full.split(".")
        at = f"{layer}.{block[1]}." if block else ""
        found[f"{at}{names.get(name, name)}.{ending}"] = x
    return found


def jina():
    tensors = renamed("jina-bert-v2", FIRST, "encoder.layer")
    return {name: x for name, x in tensors.items() if not name.startswith("cls.")}  # which is the reranker


def code():
    """Up and then gate in one matrix."""
    tensors = renamed("jina-bert-v2-code", CODE, "encoder.layer")
    for layer in range(3):
        both = [tensors.pop(f"encoder.layer.{layer}.ffn_{name}.weight") for name in ("up", "gate")]
        tensors[f"encoder.layer.{layer}.mlp.up_gated_layer.weight"] = np.concatenate(both)
    return tensors


def nomic(bias=0.0):
    """All experts' rows in one matrix, and a bias behind them."""
    tensors, mlp = renamed("nomic-bert-moe", NOMIC, "encoder.layers"), "encoder.layers.1.mlp.experts"
    up, down = (tensors.pop(f"encoder.layers.1.ffn_{name}_exps.weight") for name in ("up", "down"))
    tensors[f"{mlp}.mlp.w1"] = up.reshape(-1, DIM)
    tensors[f"{mlp}.mlp.w2"] = np.ascontiguousarray(down.swapaxes(1, 2)).reshape(-1, DIM)
    tensors[f"{mlp}.bias"] = np.full(DIM, bias, np.float32)
    return tensors


def write(folder, config, tensors):
    golden.write_folder(folder, config, {})
    golden.write_safetensors(folder / "model.safetensors", tensors)
    return folder


@pytest.mark.parametrize("name", ["JinaBertModel", "JinaBertForMaskedLM"])
def test_jina_v2(tmp_path, name):
    body = "bert." if name.endswith("MaskedLM") else ""
    tensors = {body + key: x for key, x in jina().items()}
    tensors |= {f"{body}pooler.dense.bias": np.zeros(DIM, np.float32)}
    check(tmp_path, JINA_CONFIG | {"architectures": [name]}, tensors, "jina-bert-v2")


def test_jina_v2_for_code(tmp_path):
    check(tmp_path, JINA_CONFIG | {"architectures": ["JinaBertForMaskedLM"]}, code(), "jina-bert-v2-code")


def test_nomic_v2(tmp_path):
    check(tmp_path, NOMIC_CONFIG, nomic(), "nomic-bert-moe")


def check(folder, config, tensors, case):
    with edgeinfer.LLM(write(folder, config, tensors), backend="reference") as llm:
        for pooling in ("mean", "cls"):
            assert near(llm.embed(TEXTS, pooling, normalize=False), GOLDEN[case][pooling])


def test_a_bias_that_gguf_has_not_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="no bias behind its experts"):
        edgeinfer.LLM(write(tmp_path, NOMIC_CONFIG, nomic(bias=1.0)), backend="reference").close()


def test_other_feed_forwards_are_refused(tmp_path):
    config = JINA_CONFIG | {"architectures": ["JinaBertModel"], "feed_forward_type": "reglu"}
    with pytest.raises(edgeinfer.errors.UnsupportedError, match="feed_forward_type is 'reglu'"):
        edgeinfer.LLM(write(tmp_path, config, jina()))


def packed(tensors):
    """Every matrix of a layer as the ternary one that is nearest: packed with its scale, and as numbers."""
    coded, plain = {}, {}
    for name, x in tensors.items():
        if x.ndim == 1 or ".layers." not in name:
            coded[name] = plain[name] = x
            continue
        scale = np.abs(x).mean()
        whole = np.rint(x / scale).clip(-1, 1)
        plain[name], rows = whole * scale, len(x) // 4
        coded[name] = sum((whole[i * rows : i * rows + rows] + 1).astype(np.uint8) << 2 * i for i in range(4))
        coded[f"{name}_scale"] = np.array([scale], np.float32)
    return coded, plain


PACKED = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"}


def test_bitnet_packed_is_bitnet_of_numbers(tmp_path):
    config, shapes, _ = golden.load("bitnet-relu2")
    coded, plain = packed({name: golden.weights(name, shape) for name, shape in shapes.items()})
    assert sum(x.dtype == np.uint8 for x in coded.values()) == 14
    found = []
    for name, tensors, more in (("plain", plain, {}), ("packed", coded, {"quantization_config": PACKED})):
        with edgeinfer.LLM(write(tmp_path / name, config | more, tensors), n_ctx=32, backend="reference") as llm:
            found.append(llm.logits(golden.IDS))
    assert np.abs(found[0] - found[1]).max() < 1e-5 * found[0].std() * 10
    convert(tmp_path / "packed", tmp_path / "out.gguf", "f16")
    with gguf.open(tmp_path / "out.gguf") as file:
        assert file.tensors["blk.1.ffn_up.weight"].type == GgmlType.TQ2_0
        assert file.tensors["blk.1.ffn_up.scale"].type == GgmlType.F32


@pytest.mark.parametrize("changes", [{"linear_class": "bitlinear"}, {"quantization_mode": "online"}])
def test_bitnet_packed_otherwise_is_refused(tmp_path, changes):
    config, shapes, _ = golden.load("bitnet-relu2")
    folder = golden.write_folder(tmp_path / "m", config | {"quantization_config": PACKED | changes}, shapes)
    with pytest.raises(edgeinfer.errors.UnsupportedError, match="what can be read is"):
        edgeinfer.LLM(folder)


def test_packed_rows_must_fill_blocks(tmp_path):
    config, shapes, _ = golden.load("bitnet")
    coded, _ = packed({name: golden.weights(name, shape) for name, shape in shapes.items()})
    with pytest.raises(edgeinfer.errors.UnsupportedError, match="32 wide, no multiple of 256"):
        edgeinfer.LLM(write(tmp_path, config | {"quantization_config": PACKED}, coded))
