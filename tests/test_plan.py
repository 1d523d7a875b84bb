"""Plans: what is written down, and one clear error for each way in which tensors and architecture do not fit."""

import dataclasses

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.config import read
from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats import gguf
from tests import tiny
from tests.models import decoders, encoders

LAYER = "norm linear linear linear rope rope attend linear add norm linear linear gated linear add".split()


def trace(path, arch="llama", n_ctx=None, **options):
    with gguf.open(tiny.write(path / "m.gguf", arch, **options)) as file:
        return plan.trace(file, n_ctx)


def ops(traced, kind):
    return [op for op in traced.ops if op.kind == kind]


def test_llama_is_the_ops_one_reads_in_its_file(tmp_path):
    traced = trace(tmp_path)
    order = [op.kind for op in traced.ops]
    assert sorted(order) == sorted(["embed", *LAYER * 2, "outputs", "norm", "linear"])
    assert order[0] == "embed" and order[-3:] == ["outputs", "norm", "linear"]
    assert traced.ops[-1].out.width == traced.config.vocab == tiny.VOCAB


def test_every_value_is_made_once_and_before_it_is_used(tmp_path):
    for arch in tiny.ARCH_SHAPE:
        made = set()
        for op in trace(tmp_path, arch).ops:
            assert {value.id for value in op.ins} <= made and op.out.id not in made
            made.add(op.out.id)


def test_attention_says_its_sizes(tmp_path):
    first, second = ops(trace(tmp_path, key_dim=12, value_dim=20), "attend")
    sizes = {"heads": 4, "kv_heads": 2, "key_dim": 12, "value_dim": 20, "window": 0, "scale": 12**-0.5}
    sizes |= {"cap": 0.0, "slopes": (), "buckets": (), "sets": 0, "chunk": 0, "causal": True, "text": False}
    sizes |= {"stride": 1, "logs": False}
    assert dict(first.attrs) == sizes | {"layer": 0} and dict(second.attrs) == sizes | {"layer": 1}
    assert [value.width for value in first.ins] == [48, 24, 40] and first.out.width == 80


def test_weights_are_full_names_and_tensors_only_those(tmp_path):
    traced = trace(tmp_path, bias=True)
    names = [name for op in traced.ops for name in op.weights]
    assert "blk.1.attn_q.weight" in names and "token_embd.weight" in names
    assert set(traced.tensors) == set(names)
    query = next(op for op in traced.ops if "blk.0.attn_q.weight" in op.weights)
    assert query.weights == ("blk.0.attn_q.weight", "blk.0.attn_q.bias")


def test_a_tied_model_reads_its_embedding_twice(tmp_path):
    assert trace(tmp_path, tied=True).ops[-1].weights == ("token_embd.weight",)
    assert trace(tmp_path).ops[-1].weights == ("output.weight",)


def longrope(keys, tensors):
    keys |= {"llama.rope.scaling.type": "longrope", "llama.rope.scaling.original_context_length": 64}
    for size, factor in (("long", 4), ("short", 2)):
        tensors[f"rope_factors_{size}.weight"] = (np.full(8, factor, np.float32), "F32")


@pytest.mark.parametrize("n_ctx, factor", [(64, 2), (65, 4), (None, 4)])
def test_the_context_of_the_run_chooses_longropes_factors(tmp_path, n_ctx, factor):
    turned = ops(trace(tmp_path, n_ctx=n_ctx, edit=longrope), "rope")[0].attrs["rope"]
    assert turned.frequencies[0] == 1 / factor


def remove(*names):
    def edit(keys, tensors):
        for name in names:
            del tensors[name]

    return edit


def reshape(name, *shape):
    def edit(keys, tensors):
        tensors[name] = (np.zeros(shape, np.float32), "F32")

    return edit


def rope_freqs(*values):
    def edit(keys, tensors):
        tensors["rope_freqs.weight"] = (np.array(values, np.float32), "F32")

    return edit


WRONG = {
    "one missing": (remove("blk.1.ffn_up.weight"), FormatError, "the file has no tensor blk.1.ffn_up.weight"),
    "many missing": (
        remove("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_norm.weight", "output_norm.weight"),
        FormatError,
        "no tensor blk.0.attn_q.weight, blk.0.attn_k.weight, blk.1.attn_norm.weight and 1 more",
    ),
    "transposed": (
        reshape("blk.0.ffn_gate.weight", 64, 96),
        FormatError,
        "tensor blk.0.ffn_gate.weight is 64 x 96, must be 96 x 64",
    ),
    "short norm": (reshape("output_norm.weight", 63), FormatError, "output_norm.weight is 63, must be 64"),
    "long bias": (reshape("blk.0.attn_v.bias", 33), FormatError, "blk.0.attn_v.bias is 33, must be 32"),
    "unused": (
        reshape("blk.0.attn_sinks.weight", 4),
        UnsupportedError,
        "has no use for tensor blk.0.attn_sinks.weight",
    ),
    "more layers": (
        reshape("blk.2.attn_norm.weight", 64),
        FormatError,
        "block_count is 2, but the file has tensors of 3",
    ),
    "factor of 0": (rope_freqs(*[1.0] * 7, 0.0), FormatError, "rope_freqs.weight holds a factor of 0"),
    "factor NaN": (rope_freqs(*[1.0] * 7, np.nan), FormatError, "rope_freqs.weight holds a factor of nan"),
    "few factors": (rope_freqs(1.0), FormatError, "rope_freqs.weight is 1, must be 8"),
    "architecture": (
        lambda keys, tensors: keys.update({"general.architecture": "nosuchmodel"}),
        UnsupportedError,
        "architecture 'nosuchmodel' is none of the ",
    ),
}


@pytest.mark.parametrize("edit, error, text", WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_named(tmp_path, edit, error, text):
    with pytest.raises(error) as raised:
        trace(tmp_path, edit=edit)
    assert text in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("dims", [4, 8])
def test_narrower_layers_with_windows_have_the_first_of_the_factors(tmp_path, dims):
    with gguf.open(with_factors(tmp_path, dims)) as file:
        factors = file.tensors["rope_freqs.weight"].float32()
        (local, *_) = (op.attrs["rope"] for op in ops(plan.trace(file), "rope"))
    plain = [100.0 ** (-2 * i / dims) for i in range(dims // 2)]
    assert local.frequencies == pytest.approx([plain[i] / factors[i] for i in range(dims // 2)])


def test_wider_layers_with_windows_lack_factors(tmp_path):
    wanted = "16 dimensions of each head turn in layers with a window, of which 8 have frequency factors"
    with gguf.open(with_factors(tmp_path, 16)) as file, pytest.raises(FormatError, match=wanted):
        plan.trace(file)


def with_factors(tmp_path, dims):
    """A model with frequency factors for 8 dimensions of each head, and so many that turn in layers with a window."""
    case, turning = decoders.CASES["spark2_5"], {"rope.dimension_count": 8, "rope.dimension_count_swa": dims}
    changed = {"keys": {**decoders.PATTERN, **turning}, "shapes": {**case.shapes, "rope_freqs.weight": (4,)}}
    return dataclasses.replace(case, **changed).write(tmp_path / "m.gguf")


def test_types_that_cannot_be_computed_are_named(tmp_path):
    path = tiny.write(tmp_path / "m.gguf")
    data = bytearray(path.read_bytes())
    name = b"blk.0.ffn_up.weight"
    after = data.index(name) + len(name) + 4 + 2 * 8  # past the count of dimensions and two of them
    data[after : after + 4] = (26).to_bytes(4, "little")  # I32, as large as F32
    path.write_bytes(data)
    with gguf.open(path) as file, pytest.raises(UnsupportedError, match=r"ffn_up.weight is I32 .*26.*F32 F16 Q4_0"):
        plan.trace(file)


def test_verbs_refuse_widths_that_do_not_fit(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf")) as file:
        b = plan.Builder(read(file), plan.model_config.keys_of(file), 64)
        x = b.embed()
        wide = b.linear(x, "output", tiny.VOCAB)
        for wrong in (lambda: b.add(x, wide), lambda: b.split(x, 60, 5), lambda: b.attend(x, wide, x, 0)):
            with pytest.raises(FormatError, match="do not fit together"):
                wrong()


def test_a_plan_that_pools_ends_before_the_output_matrix(tmp_path):
    path = tiny.write(tmp_path / "m.gguf", "gemma3", edit=lambda keys, _: keys.update({"gemma3.pooling_type": 1}))
    with gguf.open(path) as file:
        whole, pooled = plan.trace(file), plan.trace(file, pooling="mean")
        assert plan.stated_pooling(file, causal=True) == "mean"
    assert (whole.pooling, pooled.pooling, whole.width, pooled.width) == ("", "mean", tiny.VOCAB, 64)
    assert [op.kind for op in pooled.ops if op.kind in ("outputs", "pool")] == ["pool"] == [pooled.ops[-1].kind]
    assert "output.weight" in whole.tensors and "output.weight" not in pooled.tensors
    assert whole.causal and pooled.causal


def test_an_encoder_ends_as_its_file_says(tmp_path):
    for name, pooling, width in (("bert", "cls", 32), ("xlm-r", "rank", 1), ("gemma-embedding", "mean", 32)):
        with gguf.open(encoders.CASES[name].write(tmp_path / "m.gguf")) as file:
            traced = plan.trace(file)
            assert (traced.pooling, traced.width, traced.causal) == (pooling, width, False)
            if name != "gemma-embedding":
                assert "cls.weight" in plan.trace(file, pooling="rank").tensors
                assert "cls.weight" not in plan.trace(file, pooling="mean").tensors


BAD = """unknown-architecture no-architecture no-head_count no-rms-eps block_count-string block_count-huge block_count-1
block_count-0 head_count-3 head_count_kv-0 embedding_length-mismatch shape-transposed tensor-missing
tokens-count-vs-embd tokens-int-array""".split()


@pytest.mark.parametrize("name", BAD)
def test_bad_files_of_the_kit_end_in_one_line(shared, name):
    with gguf.open(shared / "kit" / "bad" / f"{name}.gguf") as file, pytest.raises(EdgeInferError) as raised:
        plan.trace(file)
    assert "\n" not in str(raised.value) and len(str(raised.value)) > 15


@pytest.mark.parametrize("name", "good context_length-0 weights-nan norm-inf scale-nan scale-inf trailing-junk".split())
def test_odd_files_of_the_kit_load(shared, name):
    with gguf.open(shared / "kit" / "bad" / f"{name}.gguf") as file:
        assert plan.trace(file).ops[-1].out.width == plan.trace(file).config.vocab


def test_layers_of_texts_read_in_one_step_keep_keys_and_values_in_turn(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf", "gemma3")) as file:
        layers = [[op.attrs["layer"] for op in ops(plan.trace(file, pooling=p), "attend")] for p in (None, "mean")]
    assert layers == [[0, 1, 2], [0, 0, 2]]  # the first two have a window


def test_keys_and_values_that_a_later_layer_reads_are_not_overwritten(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf")) as file:
        b = plan.Builder(read(file), plan.model_config.keys_of(file), 64)
        q, k = (b.linear(b.embed(), f"blk.0.attn_{name}", 16 * heads) for name, heads in (("q", 4), ("k", 2)))
        for layer in range(4):
            b.attend(q, k, k, layer)
        b.attend(q, None, None, 1)
    assert [op.attrs["layer"] for op in plan._by_turns(b.ops) if op.kind == "attend"] == [0, 1, 0, 0, 1]
