"""The table of tensor types."""

import gguf
import pytest

from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.ggml import GgmlType

NOT_COMPUTABLE = set("I8 I16 I32 I64 Q8_1 Q8_K".split())  # ids; activations, which no file holds


def test_ids_and_sizes_are_those_of_the_gguf_package():
    theirs = {kind.name: (int(kind), *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    ours = {kind.name: (int(kind), kind.block, kind.bytes) for kind in GgmlType}
    assert len(theirs) >= 30
    del theirs["Q8_1"]  # the package has f32 scales of long ago (40 bytes); ggml's are f16, and no file holds the type
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) <= {"Q8_1", "Q1_0", "Q2_0", "NVFP4"}  # younger than the oldest package allowed


def test_types_younger_than_the_package_have_ggmls_sizes():
    assert [(int(kind), kind.block, kind.bytes) for kind in (GgmlType.NVFP4, GgmlType.Q1_0, GgmlType.Q2_0)] == [
        (40, 64, 36),
        (41, 128, 18),
        (42, 64, 18),
    ]


def test_all_types_of_weights_are_computable():
    assert {kind.name for kind in GgmlType if not kind.computable} == NOT_COMPUTABLE


def test_of_gives_the_type():
    assert GgmlType.of(12) is GgmlType.Q4_K


@pytest.mark.parametrize("number", [43, 132, 159, 201, 400, -1, 2**32 - 1])
def test_unknown_ids_are_format_errors(number):
    with pytest.raises(FormatError, match=f"unknown ggml type {number}"):
        GgmlType.of(number)


@pytest.mark.parametrize(
    "number, name", [(4, "Q4_2"), (5, "Q4_3"), (31, "Q4_0_4_4"), (33, "Q4_0_8_8"), (38, "IQ4_NL_8_8")]
)
def test_removed_types_are_named(number, name):
    with pytest.raises(UnsupportedError, match=rf"{number} \({name}\), which was removed"):
        GgmlType.of(number)


@pytest.mark.parametrize("number", [133, 158, 202, 399])
def test_ik_llama_types_are_named(number):
    with pytest.raises(UnsupportedError, match=f"type {number}, an ik_llama.cpp type"):
        GgmlType.of(number)


def test_row_bytes():
    assert GgmlType.Q4_K.row_bytes(512) == 288
    assert GgmlType.F64.row_bytes(3) == 24
