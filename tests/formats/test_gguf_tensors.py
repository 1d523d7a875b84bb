"""Tensors: their views, and every way a description can be wrong."""

import numpy as np
import pytest

from edgeinfer.errors import FormatError, RequestError, UnsupportedError
from edgeinfer.formats.ggml import GgmlType

F32, Q4_0, Q8_0, I16 = 0, 2, 8, 25


def test_shape_is_rows_first_and_data_are_rows_of_bytes(opened):
    data = bytes(range(204))
    file = opened(tensors=[("w", (64, 3), Q8_0, 0)], data=data)
    tensor = file.tensors["w"]
    assert (tensor.name, tensor.type, tensor.shape, tensor.nbytes) == ("w", GgmlType.Q8_0, (3, 64), 204)
    assert tensor.offset % 32 == 0 and tensor.offset == file.size - 204
    assert tensor.data.shape == (3, 68) and tensor.data.tobytes() == data
    assert tensor.data.dtype == np.uint8 and not tensor.data.flags.writeable and not tensor.data.flags.owndata


def test_one_and_four_dimensions(opened):
    numbers = np.arange(24, dtype="<f4")
    file = opened(
        tensors=[("a", (4,), F32, 0), ("b", (5, 2, 1, 2), F32, 32)],
        data=numbers[:4].tobytes() + bytes(16) + numbers[4:].tobytes(),
    )
    assert file.tensors["a"].float32().tolist() == [0, 1, 2, 3]
    assert file.tensors["b"].float32().shape == (2, 1, 2, 5)
    assert np.array_equal(file.tensors["b"].float32().ravel(), numbers[4:])


def test_tensors_are_in_file_order_and_cannot_be_changed(opened):
    tensors = opened(tensors=[("b", (1,), F32, 32), ("a", (1,), F32, 0)], data=bytes(64)).tensors
    assert list(tensors) == ["b", "a"]
    with pytest.raises(TypeError):
        tensors["c"] = tensors["a"]


def test_float32_of_a_type_that_is_not_computable(opened):
    tensor = opened(tensors=[("blk.0.w", (33,), I16, 0)], data=bytes(66)).tensors["blk.0.w"]
    with pytest.raises(UnsupportedError, match=r"tensor 'blk.0.w' is I16 \(ggml type 25\).*computable: F32 F16 Q4_0"):
        tensor.float32()
    assert tensor.data.shape == (66,)


def test_data_after_close(opened):
    file = opened(tensors=[("a", (1,), F32, 0)], data=bytes(4))
    file.close()
    with pytest.raises(RequestError, match="closed"):
        file.tensors["a"].data  # noqa: B018


def test_bytes_after_the_last_tensor_are_ignored(opened):
    assert opened(tensors=[("a", (1,), F32, 0)], data=bytes(4) + b"junk" * 20).tensors["a"].float32().tolist() == [0]


@pytest.mark.parametrize("count", [2**16 + 1, 2**61, 2**64 - 1])
def test_huge_count_of_tensors(refusal, count):
    assert f"{count} tensors, more than" in refusal(FormatError, n_tensors=count)


def test_cut_inside_the_descriptions(refusal, build_gguf):
    raw = build_gguf(tensors=[("first", (1,), F32, 0), ("second", (1,), F32, 32)], alignment=1)
    assert "truncated: the file ends inside tensor 'second'" in refusal(FormatError, raw[:-1])
    assert "truncated: the file ends inside the name of tensor 1" in refusal(FormatError, raw[:-26])


def test_data_cut_names_the_first_tensor_and_the_missing_bytes(refusal):
    tensors = [("a", (8,), F32, 0), ("b", (8,), F32, 32), ("c", (8,), F32, 64)]
    text = refusal(FormatError, tensors=tensors, data=bytes(32 + 12))
    assert text == "truncated: the file ends before tensor 'b' does (bytes missing: 20 of the tensor, 52 of the file)"


def test_no_data_at_all(refusal):
    text = refusal(FormatError, tensors=[("a", (8,), F32, 0)])
    assert "truncated" in text and "'a'" in text and "32 of the tensor" in text


@pytest.mark.parametrize("offset", [2**62, 2**64 - 32])
def test_offset_beyond_the_file(refusal, offset):
    text = refusal(FormatError, tensors=[("a", (8,), F32, offset)], data=bytes(32))
    assert "truncated" in text and "'a'" in text


def test_overlapping_tensors(refusal):
    tensors = [("a", (16,), F32, 0), ("b", (8,), F32, 64), ("c", (8,), F32, 32)]
    assert refusal(FormatError, tensors=tensors, data=bytes(96)) == "tensors 'a' and 'c' overlap"


def test_two_tensors_in_one_place(refusal):
    assert "overlap" in refusal(FormatError, tensors=[("a", (8,), F32, 0), ("b", (8,), F32, 0)], data=bytes(32))


def test_unaligned_offset(refusal):
    text = refusal(FormatError, tensors=[("a", (1,), F32, 4)], data=bytes(64))
    assert text == "tensor 'a' has the offset 4, no multiple of the alignment 32"


def test_duplicate_tensor(refusal):
    text = refusal(FormatError, tensors=[("a", (1,), F32, 0), ("a", (1,), F32, 32)], data=bytes(64))
    assert text == "tensor 'a' occurs twice"


@pytest.mark.parametrize("dimensions", [0, 5, 10**6, 2**31, 2**32 - 1])
def test_count_of_dimensions(refusal, dimensions):
    text = refusal(FormatError, tensors=[("a", (1,), F32, 0, dimensions)], data=bytes(64))
    assert text == f"tensor 'a' has {dimensions} dimensions, not 1 to 4"


@pytest.mark.parametrize("dims", [(0,), (4, 0), (0, 4), (8, 2**64 - 1), (2**63, 1)])
def test_zero_and_negative_dimensions(refusal, dims):
    assert "tensor 'a' has a dimension of zero, negative" in refusal(
        FormatError, tensors=[("a", dims, F32, 0)], data=bytes(64)
    )


@pytest.mark.parametrize("dims", [(2**40, 2**40), (2**32, 2**32), (2**62, 2, 2, 2)])
def test_dimensions_whose_product_overflows(refusal, dims):
    assert "tensor 'a' has dimensions whose product overflows" in refusal(
        FormatError, tensors=[("a", dims, F32, 0)], data=bytes(64)
    )


def test_huge_dimensions_that_do_not_overflow(refusal):
    assert "truncated" in refusal(FormatError, tensors=[("a", (2**31, 2**31), F32, 0)], data=bytes(64))


@pytest.mark.parametrize("cols", [1, 8, 33])
def test_rows_that_are_not_whole_blocks(refusal, cols):
    text = refusal(FormatError, tensors=[("a", (cols, 2), Q4_0, 0)], data=bytes(640))
    assert text == f"tensor 'a' has rows of {cols} elements, not whole Q4_0 blocks of 32"


@pytest.mark.parametrize(
    "kind, error, words",
    [
        (43, FormatError, "unknown ggml type 43"),
        (2**32 - 1, FormatError, "unknown ggml type 4294967295"),
        (4, UnsupportedError, "ggml type 4 (Q4_2), which was removed"),
        (37, UnsupportedError, "ggml type 37 (IQ4_NL_4_8), which was removed"),
        (138, UnsupportedError, "ggml type 138, an ik_llama.cpp type"),
    ],
)
def test_types_that_cannot_be_read(refusal, kind, error, words):
    assert refusal(error, tensors=[("a", (32,), kind, 0)], data=bytes(640)).startswith(f"tensor 'a' has {words}")


def test_long_name(refusal):
    assert "the name of tensor 0" in refusal(FormatError, tensors=[("n" * 2000, (1,), F32, 0)], data=bytes(64))


def test_name_that_is_not_utf8(opened):
    assert list(opened(tensors=[(b"\xff", (1,), F32, 0)], data=bytes(4)).tensors) == ["\udcff"]


def test_count_of_pairs_one_too_low(refusal):
    pairs = [("a", "u32", 1), ("tokenizer.ggml.padding_token_id", "u32", 7)]
    text = refusal(FormatError, pairs=pairs, tensors=[("a", (1,), F32, 0)], n_pairs=1, data=bytes(64))
    assert "tensor 'tokenizer.ggml.padding_token_id' has" in text


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_alignment_of_the_file(opened, alignment):
    data = np.float32([1, 2]).tobytes()
    data = data[:4] + bytes(-4 % alignment) + data[4:]
    file = opened(
        pairs=[("general.alignment", "u32", alignment)],
        tensors=[("a", (1,), F32, 0), ("b", (1,), F32, max(4, alignment))],
        data=data,
        alignment=alignment,
    )
    assert file.alignment == alignment
    assert [file.tensors[name].float32().item() for name in "ab"] == [1, 2]


@pytest.mark.parametrize("alignment", [0, 3, 7, 48, 2**32 - 1])
def test_alignment_that_is_no_power_of_two(refusal, alignment):
    assert refusal(FormatError, pairs=[("general.alignment", "u32", alignment)]) == (
        f"general.alignment is {alignment}, no power of two"
    )


@pytest.mark.parametrize("kind, value", [("str", "32"), ("u64", 32), ("i32", 32), ("[u32]", [32]), ("f32", 32)])
def test_alignment_of_another_type(refusal, kind, value):
    assert "key 'general.alignment' is" in refusal(FormatError, pairs=[("general.alignment", kind, value)])


def test_huge_alignment(refusal):
    text = refusal(
        FormatError, pairs=[("general.alignment", "u32", 2**31)], tensors=[("a", (1,), F32, 0)], data=bytes(64)
    )
    assert "truncated" in text
