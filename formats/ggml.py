"""The types a tensor in a GGUF file can have: their ids, block sizes, and which of them edgeinfer computes with.

Source: `enum ggml_type` and the block structures of ggml; a test compares the table with the `gguf` package's."""

import enum

from edgeinfer.errors import FormatError, UnsupportedError

_REMOVED = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
_IK_LLAMA = (range(133, 159), range(202, 400))


class GgmlType(enum.IntEnum):
    """A tensor type by its id in files: `block` elements are stored in `bytes` bytes."""

    block: int
    bytes: int
    computable: bool

    def __new__(cls, number: int, block: int, size: int, computable: bool = False) -> "GgmlType":
        member = int.__new__(cls, number)
        member._value_ = number
        member.block = block
        member.bytes = size
        member.computable = computable
        return member

    F32 = 0, 1, 4, True
    F16 = 1, 1, 2, True
    Q4_0 = 2, 32, 18, True
    Q4_1 = 3, 32, 20, True
    Q5_0 = 6, 32, 22, True
    Q5_1 = 7, 32, 24, True
    Q8_0 = 8, 32, 34, True
    Q8_1 = 9, 32, 36
    Q2_K = 10, 256, 84, True
    Q3_K = 11, 256, 110, True
    Q4_K = 12, 256, 144, True
    Q5_K = 13, 256, 176, True
    Q6_K = 14, 256, 210, True
    Q8_K = 15, 256, 292
    IQ2_XXS = 16, 256, 66, True
    IQ2_XS = 17, 256, 74, True
    IQ3_XXS = 18, 256, 98, True
    IQ1_S = 19, 256, 50, True
    IQ4_NL = 20, 32, 18, True
    IQ3_S = 21, 256, 110, True
    IQ2_S = 22, 256, 82, True
    IQ4_XS = 23, 256, 136, True
    I8 = 24, 1, 1
    I16 = 25, 1, 2
    I32 = 26, 1, 4
    I64 = 27, 1, 8
    F64 = 28, 1, 8, True
    IQ1_M = 29, 256, 56, True
    BF16 = 30, 1, 2, True
    TQ1_0 = 34, 256, 54, True
    TQ2_0 = 35, 256, 66, True
    MXFP4 = 39, 32, 17, True
    NVFP4 = 40, 64, 36, True
    Q1_0 = 41, 128, 18, True
    Q2_0 = 42, 64, 18, True

    @classmethod
    def of(cls, number: int) -> "GgmlType":
        """The type with id `number`.

        FormatError if there is none, UnsupportedError if it was removed from GGUF or is one of ik_llama.cpp's."""
        if number in _BY_NUMBER:
            return _BY_NUMBER[number]
        if number in _REMOVED:
            raise UnsupportedError(f"ggml type {number} ({_REMOVED[number]}), which was removed from GGUF")
        if any(number in ids for ids in _IK_LLAMA):
            raise UnsupportedError(f"ggml type {number}, an ik_llama.cpp type")
        raise FormatError(f"unknown ggml type {number}")

    def row_bytes(self, cols: int) -> int:
        """Bytes of a row of `cols` elements, a multiple of `block`."""
        return cols // self.block * self.bytes

    @property
    def not_computable(self) -> str:
        """The end of an error text about something of this type."""
        names = " ".join(kind.name for kind in GgmlType if kind.computable)
        return f"{self.name} (ggml type {int(self)}), which cannot be computed with; computable: {names}"


_BY_NUMBER = {int(kind): kind for kind in GgmlType}
