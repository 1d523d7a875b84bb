"""Blocks to floats: against two independent implementations.  Types by hand: the files beside this one."""

import json
import tracemalloc

import gguf
import numpy as np
import pytest

from edgeinfer.errors import FormatError, RequestError, UnsupportedError
from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType
from tests import blocks as random
from tests.formats.by_hand import check, f16

COMPUTABLE = [kind for kind in GgmlType if kind.computable]
THEIRS = [kind for kind in COMPUTABLE if kind.name in ("F32", "F16") or hasattr(gguf.quants, kind.name)]


def random_blocks(kind, count):
    return random.random_blocks(np.random.default_rng(3), kind.name, count)


def test_f64():
    check("F64", np.array([0.1, -2, 1e300, 1e-50], "<f8").tobytes(), [np.float32(0.1), -2, np.inf, 0])


def test_f32():
    check("F32", np.array([1.5, -0.0, 3e38], "<f4").tobytes(), [1.5, 0, np.float32(3e38)])


def test_f16():
    check("F16", bytes.fromhex("003c 00c0 0100 ff7b"), [1, -2, 2**-24, 65504])


def test_bf16():
    check("BF16", bytes.fromhex("803f 00c0 c040 807f"), [1, -2, 6, np.inf])


@pytest.mark.parametrize("kind", THEIRS, ids=lambda kind: kind.name)
def test_equal_to_the_gguf_package_on_random_blocks(kind):
    blocks = random_blocks(kind, 5000)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind.name])
    assert np.array_equal(dequantize(blocks, kind), want, equal_nan=True)


@pytest.mark.parametrize("kind", COMPUTABLE, ids=lambda kind: kind.name)
def test_equal_to_ggml_on_the_kit(shared, kind):
    folder = shared / "kit" / "quant"
    cases = []
    if (folder / f"{kind.name}.npz").is_file():
        made = np.load(folder / f"{kind.name}.npz")
        cases += [(made[key], made["y" + key[1:]]) for key in made.files if key == "q" or key.startswith("q_")]
    raw = np.load(folder / "raw_blocks.npz")
    if f"{kind.name}_raw" in raw.files:
        blocks = raw[f"{kind.name}_raw"]
        cases.append((blocks, raw[f"{kind.name}_y"].reshape(len(blocks), -1)))
    assert cases or kind in (GgmlType.F32, GgmlType.F64)
    for blocks, want in cases:
        assert np.array_equal(dequantize(blocks, kind), want, equal_nan=True)


def test_the_kit_covers_every_type_but_f32_and_f64(shared):
    index = json.dumps(json.loads((shared / "kit" / "quant" / "index.json").read_text()))
    assert all(f'"{kind.name}"' in index for kind in COMPUTABLE if kind not in (GgmlType.F32, GgmlType.F64))


@pytest.mark.parametrize("kind", COMPUTABLE, ids=lambda kind: kind.name)
def test_any_leading_shape(kind):
    blocks = random_blocks(kind, 24)
    want = dequantize(blocks, kind)
    shaped = blocks.reshape(3, 2, 4 * kind.bytes)
    assert np.array_equal(dequantize(shaped, kind), want.reshape(3, 2, 4 * kind.block), equal_nan=True)
    assert np.array_equal(
        dequantize(shaped.transpose(1, 0, 2), kind), want.reshape(3, 2, -1).transpose(1, 0, 2), equal_nan=True
    )
    assert np.array_equal(dequantize(blocks[0], kind), want[0], equal_nan=True)


@pytest.mark.parametrize(
    "shape, want", [((0, 144), (0, 256)), ((3, 0), (3, 0)), ((0,), (0,)), ((2, 0, 288), (2, 0, 512))]
)
def test_empty(shape, want):
    assert dequantize(np.zeros(shape, np.uint8), "Q4_K").shape == want


def test_unaligned_blocks():
    raw = np.zeros(1 + 4 * 10, np.uint8)
    raw[1:] = np.arange(10, dtype="<f4").view(np.uint8)
    assert dequantize(raw[1:], "F32").tolist() == list(range(10))


def test_large_arrays_are_unpacked_in_pieces():
    blocks = random_blocks(GgmlType.Q4_K, 1 << 13)  # 2M weights
    tracemalloc.start()
    whole = dequantize(blocks, "Q4_K")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < whole.nbytes + (4 << 20)
    pieces = [dequantize(blocks[start : start + 100], "Q4_K") for start in range(0, len(blocks), 100)]
    assert np.array_equal(whole, np.concatenate(pieces))


def test_scales_that_are_not_finite_give_no_warning(recwarn):
    block = np.frombuffer(f16(np.inf) + bytes(16), np.uint8)
    assert np.isneginf(dequantize(block, "Q4_0")).all()
    nothing = np.frombuffer(f16(np.inf) + bytes([0x88]) * 16, np.uint8)  # infinity times zero
    assert np.isnan(dequantize(nothing, "Q4_0")).all() and not recwarn.list


def test_type_by_id_member_or_name():
    block = np.frombuffer(f16(2) + bytes(range(32)), np.uint8)
    assert all(dequantize(block, kind)[1] == 2 for kind in (8, np.int64(8), GgmlType.Q8_0, "Q8_0"))


def test_bytes_that_are_not_whole_blocks():
    with pytest.raises(FormatError, match="rows of 35 bytes are not whole Q8_0 blocks of 34 bytes"):
        dequantize(np.zeros((2, 35), np.uint8), "Q8_0")


@pytest.mark.parametrize("kind", ["I32", 27, "Q8_1", "Q8_K"])
def test_types_that_are_not_computable(kind):
    with pytest.raises(UnsupportedError, match=r"\(ggml type \d+\), which cannot be computed with; computable: F32"):
        dequantize(np.zeros(9 * 292 * 8, np.uint8), kind)


@pytest.mark.parametrize("kind", ["Q9_0", "q8_0", 43, -1])
def test_types_that_do_not_exist(kind):
    with pytest.raises(FormatError, match=f"unknown ggml type '?{kind}"):
        dequantize(np.zeros(34, np.uint8), kind)


@pytest.mark.parametrize("blocks", [np.zeros(34, np.int8), np.zeros(34, np.float32), np.uint8(1)])
def test_blocks_must_be_bytes(blocks):
    with pytest.raises(RequestError, match="must be uint8"):
        dequantize(blocks, "Q8_0")
