"""The tokenizer as a whole: flags, decoding, and the exact ids of the two real models."""

import json
import pathlib
from collections.abc import Callable

import pytest

import edgeinfer
from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
Real = Callable[[str], Tokenizer]
SMOL, GEMMA = "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-Q4_K_M.gguf"
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5


def test_begin_and_end(bpe: Make) -> None:
    special = [("<s>", CONTROL), ("</s>", CONTROL)]
    tokenizer = bpe(special=special, bos_token_id=256, eos_token_id=257, add_bos_token=True, add_eos_token=True)
    assert tokenizer.encode("a") == [256, 97, 257]
    assert tokenizer.encode("a", add_special=False) == [97]
    assert tokenizer.encode("") == [256, 257]
    assert bpe(special=special, bos_token_id=256).encode("a") == [97]


def test_flags_that_the_file_leaves_open(bpe: Make, spm: Make) -> None:
    assert not bpe().add_bos
    assert bpe(pre="llama3").add_bos
    assert spm().add_bos and not spm().add_eos


def test_decode_shows_control_tokens_only_if_asked(bpe: Make) -> None:
    tokenizer = bpe(special=[("<|x|>", CONTROL), ("[u]", USER_DEFINED), ("[never]", UNUSED)])
    assert tokenizer.decode([97, 256, 257, 258, 98]) == b"a[u]b"
    assert tokenizer.decode([97, 256, 257, 258, 98], special=True) == b"a<|x|>[u]b"


def test_decode_with_special_drops_blanks_as_llama_cpp_does(bpe: Make) -> None:
    text = "a , it 's ' x"
    assert bpe().decode(bpe().encode(text), special=True) == b"a, it's'x"
    assert bpe().decode(bpe().encode(text)) == text.encode()
    assert bpe(pre="smollm").decode(text.encode(), special=True) == text.encode()


def test_decode_strips_one_blank_of_the_first_text(spm: Make) -> None:
    tokenizer = spm(["▁a", "▁"])
    assert tokenizer.decode([259, 259]) == b"a a"
    assert tokenizer.decode([1, 259]) == b"a"
    assert tokenizer.decode([1, 259], special=True) == b"<s> a"
    assert tokenizer.decode([260, 260]) == b" "
    assert spm(["▁a"], add_space_prefix=False).decode([259]) == b" a"


@pytest.mark.parametrize("id", [-1, 256])
def test_ids_outside_the_vocabulary(bpe: Make, id: int) -> None:
    for use in (bpe().token_bytes, bpe().is_control, lambda id: bpe().decode([id])):
        with pytest.raises(RequestError, match=r"0\.\.255"):
            use(id)


def test_texts(bpe: Make, spm: Make) -> None:
    special = [("<|x|>", CONTROL), ("[u]", USER_DEFINED), ("[never]", UNUSED)]
    for tokenizer in (bpe(["a b"], special=special), spm(["▁a"], special=special)):
        ids = range(tokenizer.n_vocab)
        want = [b"" if tokenizer.is_control(id) else tokenizer.token_bytes(id) for id in ids]
        assert [tokenizer.texts[id] for id in ids] == want
        assert want[-3:] == [b"", b"[u]", b""]


def test_special_tokens_and_pieces(bpe: Make) -> None:
    tokenizer = bpe(special=[("<a>", CONTROL), ("[bcd]", USER_DEFINED)])
    assert list(tokenizer.special_tokens.items()) == [(b"[bcd]", 257), (b"<a>", 256)]
    assert tokenizer.pieces[0x20] == "Ġ".encode()


def test_from_an_open_file_and_exported(write: Callable[..., pathlib.Path]) -> None:
    path = write(model="gpt2", pre="gpt-2", tokens=["a", "b", "ab"], token_type=[1, 1, 1], merges=["a b"])
    with gguf.open(path) as file:
        assert edgeinfer.Tokenizer.from_gguf(file).encode("ab") == [2]
    with pytest.warns(UserWarning, match="nobody"):
        Tokenizer.from_gguf(path, pre="nobody")


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("no-tokenizer-model", False),
        ("no-merges", False),
        ("token_type-wrong-type", False),
        ("tokens-int-array", False),
        ("tokens-not-utf8", True),
        ("merges-no-space", True),
        ("good", True),
    ],
)
def test_kit_bad_files(shared: pathlib.Path, name: str, loads: bool) -> None:
    path = shared / f"kit/bad/{name}.gguf"
    if loads:
        tokenizer = Tokenizer.from_gguf(path)
        assert tokenizer.decode(tokenizer.encode("Hello é\n")) == "Hello é\n".encode()
    else:
        with pytest.raises(FormatError, match="tokenizer.ggml"):
            Tokenizer.from_gguf(path)


@pytest.mark.parametrize(
    ("text", "smol", "gemma"),
    [
        ("Hello", [19556], [9259]),
        (" Hello", [38699], [26352]),
        ("hello  world", [28120, 216, 905], [23391, 138, 12392]),
        ("  two", [216, 827], [138, 13498]),
        (
            "The number is 12345.6789",
            [504, 1230, 314, 216, 33, 34, 35, 36, 37, 30, 38, 39, 40, 41],
            [818, 1548, 563, 236743, 236770, 236778, 236800, 236812, 236810, 236761, 236825, 236832, 236828, 236819],
        ),
        (
            "Hello world! Café déjà vu — 123 😊",
            [19556, 905, 17, 48031, 2756, 32564, 90, 16739, 386, 101, 1841, 216, 33, 34, 35, 40303, 228],
            [9259, 1902, 236888, 62367, 29234, 11042, 2192, 236743, 236770, 236778, 236800, 103453],
        ),
        ("한국어", [33085, 246, 181, 130, 251, 183, 240, 129], None),
        ("a\tb\n\n\nc", None, [236746, 255968, 236763, 109, 236755]),
    ],
)
def test_real_ids(real: Real, text: str, smol: list[int] | None, gemma: list[int] | None) -> None:
    for name, want in ((SMOL, smol), (GEMMA, gemma)):
        tokenizer = real(name)
        ids = tokenizer.encode(text, add_special=False)
        assert want is None or ids == want
        assert tokenizer.decode(ids) == text.encode()


def test_real_control_tokens(real: Real) -> None:
    text = "<|im_start|>user\nhi<|im_end|>"
    assert real(SMOL).encode(text, parse_special=True) == [1, 4093, 198, 6004, 2]
    plain = [44, 108, 306, 79, 3738, 108, 46, 4093, 198, 6004, 44, 108, 306, 79, 486, 108, 46]
    assert real(SMOL).encode(text) == real(SMOL).encode_segments([(text, False)]) == plain
    turn = "<start_of_turn>user\nhi<end_of_turn>"
    assert real(GEMMA).encode(turn, add_special=False, parse_special=True) == [105, 2364, 107, 2202, 106]


def test_real_incomplete_utf8(real: Real) -> None:
    assert real(SMOL).encode(b"\xe6\xad", exact=True) == [34978]
    assert real(SMOL).encode(b"\xe6\xad\xaa", exact=True) == [34978, 120]
    ids = real(GEMMA).encode(b"\xff\xfe", add_special=False)
    assert real(GEMMA).decode(ids) == b"\xff\xfe"


def test_kit_models(shared: pathlib.Path) -> None:
    """Every model of the kit: ids and bytes as llama.cpp has them."""
    cases = [
        json.loads(path.read_text()) for path in sorted((shared / "kit/arch").glob("*.json")) if path.stem != "index"
    ]
    assert len(cases) >= 136
    for case in cases:
        tokenizer = Tokenizer.from_gguf(shared / "kit/arch" / case["file"])
        for check in case["tokenize_checks"]:
            ids = tokenizer.encode(check["text"], check["add_special"], check["parse_special"])
            assert ids == check["ids"], case["name"]
            assert tokenizer.decode(ids, special=True).hex() == check["detok_hex"], case["name"]
