"""What files that are not GGUF are called."""

import pytest

from edgeinfer.formats.magic import describe


@pytest.mark.parametrize(
    "head, words",
    [
        (b"GGU", "truncated"),
        (b"tjgg\3\0\0\0", "legacy GGML file (ggjt)"),
        (b"lmgg\0\0\0\0", "legacy GGML file (ggml)"),
        (b"algg\1\0\0\0", "legacy GGML file (ggla)"),
        (b"GGML\3\0\0\0", "legacy GGML file (GGML)"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 98362432\n", "git-lfs pointer"),
        (b"<!DOCTYPE html><html>404</html>", "HTML page"),
        (b"\r\n  <HTML lang=en>", "HTML page"),
        ("naïve plain text\n".encode(), "a text file"),
        (("x" * 511 + "ï").encode()[:512], "a text file"),  # the last character is cut
        (b"\x7fELF\2\1\1\0", "not a GGUF file: it begins with the bytes 7f 45 4c 46"),
        (b"PK\3\4\xff\xfe", "not a GGUF file"),
    ],
)
def test_other_files_are_named(head, words):
    assert words in describe(head)
    assert "\n" not in describe(head)


def test_gguf_has_no_fault():
    assert describe(b"GGUF\3\0\0\0") == ""
