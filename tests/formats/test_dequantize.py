"""Blocks to floats: worked out by hand, and against two independent implementations."""

import json
import tracemalloc

import gguf
import numpy as np
import pytest

from edgeinfer.errors import FormatError, RequestError, UnsupportedError
from edgeinfer.formats import dequantize
from edgeinfer.formats.ggml import GgmlType

COMPUTABLE = [kind for kind in GgmlType if kind.computable]
SCALES = {  # type -> where in a block its f16 numbers are
    "F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip


def f16(*numbers):
    return np.array(numbers, "<f2").tobytes()


def check(kind, block, want):
    got = dequantize(np.frombuffer(block, np.uint8), kind)
    assert got.dtype == np.float32 and got.tolist() == want


def test_f32():
    check("F32", np.array([1.5, -0.0, 3e38], "<f4").tobytes(), [1.5, 0, np.float32(3e38)])


def test_f16():
    check("F16", bytes.fromhex("003c 00c0 0100 ff7b"), [1, -2, 2**-24, 65504])


def test_bf16():
    check("BF16", bytes.fromhex("803f 00c0 c040 807f"), [1, -2, 6, np.inf])


COUNT_UP_AND_DOWN = bytes(low | (15 - low) << 4 for low in range(16))  # low nibbles 0..15, high nibbles 15..0


def test_q4_0():
    check("Q4_0", f16(0.5) + COUNT_UP_AND_DOWN, [0.5 * (q - 8) for q in [*range(16), *range(15, -1, -1)]])


def test_q4_1():
    check("Q4_1", f16(0.5, -3) + COUNT_UP_AND_DOWN, [0.5 * q - 3 for q in [*range(16), *range(15, -1, -1)]])


HIGH_BITS = bytes.fromhex("0100 ff7f")  # fifth bits: of weight 0, and of weights 16 to 30
FIVE_BITS = [16, *range(1, 16), *range(31, 16, -1), 0]


def test_q5_0():
    check("Q5_0", f16(0.5) + HIGH_BITS + COUNT_UP_AND_DOWN, [0.5 * (q - 16) for q in FIVE_BITS])


def test_q5_1():
    check("Q5_1", f16(0.5, -3) + HIGH_BITS + COUNT_UP_AND_DOWN, [0.5 * q - 3 for q in FIVE_BITS])


def test_q8_0():
    q = [-128, 127, *range(-15, 15)]
    check("Q8_0", f16(0.25) + np.array(q, np.int8).tobytes(), [0.25 * x for x in q])


TWO_BITS = bytes([0b11_10_01_00])  # 0, 1, 2, 3 from the lowest bits up


def test_q2_k():
    scales = bytes(group | (15 - group) << 4 for group in range(16))
    want = [0.5 * group * (group // 2 % 4) - 0.25 * (15 - group) for group in range(16) for _ in range(16)]
    check("Q2_K", scales + TWO_BITS * 64 + f16(0.5, 0.25), want)


def test_q3_k():
    scales = [4 * group for group in range(16)]  # their upper two bits are group // 4
    packed = bytes(scales[i] & 15 | (scales[i + 8] & 15) << 4 for i in range(8)) + TWO_BITS * 4
    hmask = bytes([0b0101_0101]) * 32  # the third bit of every other 32 weights
    q = [low + 4 * (k % 2 == 0) - 4 for k, low in enumerate([0, 1, 2, 3] * 2)]  # of each 32 weights
    want = [0.5 * (scales[group] - 32) * q[group // 2] for group in range(16) for _ in range(16)]
    check("Q3_K", hmask + TWO_BITS * 64 + packed + f16(0.5), want)


SCALES_K = [1, 2, 3, 63, 16, 33, 50, 15]
MINS_K = [0, 5, 63, 1, 48, 17, 34, 7]
PACKED_K = bytes([1 | 1 << 6, 2 | 2 << 6, 3 | 3 << 6, 63, 3 << 6, 5 | 1 << 6, 63 | 2 << 6, 1, 0x00, 0x11, 0x22, 0x7F])
NIBBLES_K = bytes(pair | (pair + 8) << 4 for pair in range(4) for _ in range(32))
Q_K = [0, 8, 1, 9, 2, 10, 3, 11]  # of each 32 weights


def test_q4_k():
    want = [0.5 * SCALES_K[group] * Q_K[group] - 0.25 * MINS_K[group] for group in range(8) for _ in range(32)]
    check("Q4_K", f16(0.5, 0.25) + PACKED_K + NIBBLES_K, want)


def test_q5_k():
    high = bytes([0b1001_0110]) * 32
    q = [low + 16 * (group in (1, 2, 4, 7)) for group, low in enumerate(Q_K)]
    want = [0.5 * SCALES_K[group] * q[group] - 0.25 * MINS_K[group] for group in range(8) for _ in range(32)]
    check("Q5_K", f16(0.5, 0.25) + PACKED_K + high + NIBBLES_K, want)


def test_q6_k():
    scales = list(range(-8, 8))
    nibbles = bytes([0x3C]) * 128  # 12 in the first 64 weights of each half, 3 in the others
    q = [12, 12 + 16, 3 + 32, 3 + 48]  # of each 32 weights of a half
    want = [0.5 * scales[group] * (q[group // 2 % 4] - 32) for group in range(16) for _ in range(16)]
    check("Q6_K", nibbles + TWO_BITS * 64 + np.array(scales, np.int8).tobytes() + f16(0.5), want)


def random_blocks(kind, count, seed=3):
    """uint8 [count, bytes]: random bits, with finite scales but for F16 and BF16, where any bits may be a weight."""
    draw = np.random.default_rng(seed)
    blocks = draw.integers(0, 256, (count, kind.bytes), np.uint8)
    for at in SCALES.get(kind.name, []) if kind.block > 1 else []:
        blocks[:, at : at + 2] = draw.normal(0, 0.1, count).astype("<f2").view(np.uint8).reshape(count, 2)
    return blocks


@pytest.mark.parametrize("kind", COMPUTABLE, ids=lambda kind: kind.name)
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
    assert cases or kind is GgmlType.F32
    for blocks, want in cases:
        assert np.array_equal(dequantize(blocks, kind), want, equal_nan=True)


def test_the_kit_covers_every_type_but_f32(shared):
    index = json.dumps(json.loads((shared / "kit" / "quant" / "index.json").read_text()))
    assert all(f'"{kind.name}"' in index for kind in COMPUTABLE if kind is not GgmlType.F32)


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


@pytest.mark.parametrize("kind", ["IQ4_NL", 20, "F64", "Q8_1"])
def test_types_that_are_not_computable(kind):
    with pytest.raises(
        UnsupportedError, match=r"\(ggml type \d+\), which cannot be computed with yet; computable: F32"
    ):
        dequantize(np.zeros(288, np.uint8), kind)


@pytest.mark.parametrize("kind", ["Q9_0", "q8_0", 43, -1])
def test_types_that_do_not_exist(kind):
    with pytest.raises(FormatError, match=f"unknown ggml type '?{kind}"):
        dequantize(np.zeros(34, np.uint8), kind)


@pytest.mark.parametrize("blocks", [np.zeros(34, np.int8), np.zeros(34, np.float32), np.uint8(1)])
def test_blocks_must_be_bytes(blocks):
    with pytest.raises(RequestError, match="must be uint8"):
        dequantize(blocks, "Q8_0")
