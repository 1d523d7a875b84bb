"""ModelConfig: defaults, and one clear error for each way in which a model's numbers can be wrong."""

import pytest

from edgeinfer import config
from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats import gguf
from tests import tiny


def read(path, changes=None, arch="llama", **options):
    """The config of a tiny model whose keys are changed; None as a value removes the key."""

    def edit(keys, tensors):
        for key, value in (changes or {}).items():
            name = key if key.startswith("tokenizer") else f"{arch}.{key}"
            if value is None:
                del keys[name]
            else:
                keys[name] = value

    with gguf.open(tiny.write(path / "m.gguf", arch, edit=edit, **options)) as file:
        return config.read(file)


def test_numbers_are_the_files(tmp_path):
    c = read(tmp_path, dim=32, heads=4, kv_heads=2, key_dim=12, value_dim=20, ff_dim=48, layers=1)
    assert (c.arch, c.layers, c.dim, c.heads, c.kv_heads) == ("llama", 1, 32, 4, 2)
    assert (c.key_dim, c.value_dim, c.ff_dim, c.context, c.vocab) == (12, 20, 48, 256, tiny.VOCAB)
    assert c.eps == pytest.approx(1e-5)


def test_what_a_file_may_leave_out(tmp_path):
    left_out = ("attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base")
    c = read(tmp_path, dict.fromkeys(left_out))
    assert (c.kv_heads, c.key_dim, c.value_dim, c.rope_dim, c.rope_base) == (4, 16, 16, 16, 10_000.0)
    assert (c.rope_scaling, c.rope_factor, c.rope_context, c.rope_attn_factor) == ("linear", 1.0, 256, 1.0)


def test_context_of_zero_is_unknown(tmp_path):
    assert read(tmp_path, {"context_length": 0}).context == config.UNSTATED_CONTEXT


def test_numbers_may_differ_between_layers(tmp_path):
    c = read(tmp_path, {"feed_forward_length": [96, 64], "attention.head_count": [4, 0]})
    assert (c.ff_dim, c.heads) == (96, 4)
    assert [(c.at(layer).ff_dim, c.at(layer).heads) for layer in (0, 1)] == [(96, 4), (64, 0)]


def test_only_recurrent_models_may_do_without_attention(tmp_path):
    without = {"attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0, "ssm.conv_kernel": 4}
    c = read(tmp_path, without)
    assert (c.heads, c.kv_heads, c.ff_dim) == (0, 0, 0)


WRONG = {
    "missing heads": ({"attention.head_count": None}, FormatError, "'llama.attention.head_count' is missing"),
    "missing eps": ({"attention.layer_norm_rms_epsilon": None}, FormatError, "layer_norm_rms_epsilon' is missing"),
    "missing context": ({"context_length": None}, FormatError, "context_length' is missing"),
    "text for a number": ({"block_count": "2"}, FormatError, "block_count' is str, int wanted"),
    "no layers": ({"block_count": 0}, FormatError, "block_count is 0, must be in 1..1024"),
    "many layers": ({"block_count": 2**31 - 1}, FormatError, "block_count is 2147483647"),
    "no heads": ({"attention.head_count": 0}, FormatError, "head_count is 0"),
    "no kv heads": ({"attention.head_count_kv": 0}, FormatError, "head_count_kv is 0"),
    "kv heads that do not divide": ({"attention.head_count_kv": 3}, FormatError, "not a multiple of head_count_kv, 3"),
    "heads that do not divide": (
        {"attention.head_count": 6, "attention.key_length": None},
        FormatError,
        "embedding_length, 64, is not a multiple of attention.head_count, 6",
    ),
    "huge heads": ({"attention.key_length": 2**23}, FormatError, "key_length is 8388608, must be in 1..16384"),
    "huge default": ({"embedding_length": 2**23, "attention.key_length": None}, FormatError, "key_length is 2097152"),
    "negative": ({"feed_forward_length": -4}, FormatError, "feed_forward_length is -4"),
    "layers that differ": ({"embedding_length": [64, 32]}, UnsupportedError, "differs between layers"),
    "counts of more layers": ({"feed_forward_length": [96, 96, 96]}, FormatError, "has 3 numbers for 2 layers"),
    "negative in one layer": ({"feed_forward_length": [96, -1]}, FormatError, "feed_forward_length holds -1"),
    "no eps": ({"attention.layer_norm_rms_epsilon": float("nan")}, FormatError, "epsilon is nan"),
    "flat rope": ({"rope.freq_base": 0.5}, FormatError, "freq_base is 0.5"),
    "huge growth": (
        {"rope.scaling.attn_factor": 3e38},
        FormatError,
        "attn_factor is 3e+38, must be a finite number of at least 0 and at most 1e+06",
    ),
    "infinite factor": ({"rope.scaling.factor": float("inf")}, FormatError, "factor is inf"),
    "odd rope": ({"rope.dimension_count": 7}, FormatError, "RoPE turns pairs, but 7 dimensions"),
    "rope beyond the head": ({"rope.dimension_count": 18}, FormatError, "dimension_count is 18, must be in 0..16"),
    "unknown scaling": ({"rope.scaling.type": "spiral"}, UnsupportedError, "'spiral', known are: none linear yarn"),
    "too few tokens": ({"tokenizer.ggml.tokens": ["a"]}, FormatError, "holds 1 tokens but token_embd.weight has 300"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, FormatError, "'tokenizer.ggml.tokens' is missing"),
}


@pytest.mark.parametrize("changes, error, text", WRONG.values(), ids=WRONG.keys())
def test_wrong_numbers_are_named(tmp_path, changes, error, text):
    with pytest.raises(error) as raised:
        read(tmp_path, changes)
    assert text in str(raised.value) and "\n" not in str(raised.value)


def test_a_model_without_embedding_is_named(tmp_path):
    path = tiny.write(tmp_path / "m.gguf", edit=lambda keys, tensors: tensors.pop("token_embd.weight"))
    with gguf.open(path) as file, pytest.raises(FormatError, match="no tensor token_embd.weight"):
        config.read(file)


def test_layers_that_the_file_does_not_have_may_be_counted(tmp_path):
    path = tiny.write(tmp_path / "m.gguf", edit=lambda keys, _: keys.update({"llama.sizes": [4, 0, 6]}))
    with gguf.open(path) as file:
        keys = config.keys_of(file)
        assert keys.integers("sizes", 2, more=True) == (4, 0)
        for layers, more in ((2, False), (4, True)):
            with pytest.raises(FormatError, match=f"llama.sizes has 3 numbers for {layers} layers"):
                keys.integers("sizes", layers, more=more)
