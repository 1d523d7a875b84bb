"""What cases are made from: files and templates of the conformance kit where it is there, and small ones made here."""

from __future__ import annotations

import functools
import json
import lzma
import pathlib
import random
import struct
import tempfile
from typing import Any

from edgeinfer.formats.ggml import GgmlType
from tests import tiny
from tests.fuzz import odd
from tests.fuzz.gguf_parts import ARRAY, STRING, Info, Pair, Parts, parse
from tests.models import decoders, encoders, test_renamed

KIT = pathlib.Path(__file__).resolve().parents[3] / "shared" / "kit"
_CUT = 80  # tokens and merges of a real vocabulary that are kept


@functools.cache
def models() -> list[Parts]:
    """Models of every architecture there is a file of."""
    paths = sorted(KIT.glob("arch/*.gguf"))
    return [*_tiny_models(), *_random_models(), *_renamed_models(), *(parse(path.read_bytes()) for path in paths)]


@functools.cache
def files() -> list[Parts]:
    """Files of any kind, most of them small."""
    small = [*_tiny_models(), *vocabularies()] * 3
    return _smallest() * (6 * len(small + models()) // len(_smallest())) + small + models()


@functools.cache
def vocabularies() -> list[Parts]:
    """Small vocabularies of all kinds, most of them in files without tensors."""
    kinds = ("llama", "gpt2", "t5", "bert", "rwkv", "gemma4")
    made = [_vocabulary(model, known) for model in kinds for known in (range(256), *[range(95, 115)] * 5)]
    made += [_vocabulary("plamo2", range(256))] * 6  # which must have all bytes
    found = [_cut(parse(lzma.decompress(path.read_bytes()))) for path in sorted(KIT.glob("tokenizer/vocab/*.gguf.xz"))]
    names = sorted({raw for parts in models() if isinstance(raw := parts.value(b"tokenizer.ggml.pre"), bytes)})
    owns = [next(parts for parts in models() if parts.value(b"tokenizer.ggml.pre") == name) for name in names]
    return made + found + [Parts(own.pairs, [], b"") for own in owns]


@functools.cache
def templates() -> list[str]:
    paths = sorted(KIT.glob("chat/templates/*.jinja"))
    return [*SMALL_TEMPLATES, *(path.read_text(encoding="utf-8") for path in paths)]


@functools.cache
def conversations() -> list[dict[str, object]]:
    """Arguments of `chat.render`."""
    path = KIT / "chat" / "conversations.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    kept = [case for case in (found.values() if isinstance(found, dict) else found) if "messages" in case]
    return [{"messages": case["messages"], "tools": case.get("tools")} for case in kept] + _CONVERSATIONS


@functools.cache
def _tiny_models() -> list[Parts]:
    shape: dict[str, Any] = {"dim": 32, "heads": 4, "kv_heads": 2, "key_dim": 8, "value_dim": 8, "ff_dim": 32}
    made = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tiny.gguf"
        for arch in tiny.ARCH_SHAPE:
            for types, vocab in (("F32", "bpe"), ("Q8_0", "spm"), ("Q4_1", "bpe"), ("IQ4_NL", "spm")):
                made.append(parse(tiny.write(path, arch, types, vocab=vocab, **shape).read_bytes()))
    return made


def _random_models() -> list[Parts]:
    """Of architectures that the kit has not, and encoders."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "random.gguf"
        own = decoders.CASES | decoders.ENCODERS | decoders.ANSWERS
        cases = [*own.values(), *encoders.CASES.values()]
        return [parse(case.write(path).read_bytes()) for case in cases]


def _renamed_models() -> list[Parts]:
    """Of architectures that have the tensors of one of the kit's."""
    cases = [(test_renamed.KIT / f"{case.base}.gguf", case) for case in test_renamed.CASES.values()]
    return [parse(test_renamed.renamed(path, case.arch, case.keys)) for path, case in cases if path.is_file()]


def _smallest() -> list[Parts]:
    """Files of a few values and tensors: most of what a reader can do wrong needs no more."""
    numbers = [Pair(f"a.{kind}".encode(), kind, odd.number(random.Random(kind), kind)) for kind in odd.FORMATS]
    arrays = [_array(f"b.{kind}", kind, pair.value * 5) for kind, pair in zip(odd.FORMATS, numbers, strict=True)]
    texts = [_text("c", "text"), _array("d", STRING, [b"a", b"bc", b"", b"a longer one", "é世".encode()] * 3)]
    made = []
    for first, kind in enumerate(GgmlType):
        pairs = [
            _text("general.architecture", "llama"),
            texts[first % 2],
            *numbers[first % 5 :: 6],
            *arrays[first % 4 :: 6],
        ]
        infos = [Info(b"x", (4, 3), 0, 0), Info(b"y", (kind.block, 2), int(kind), 64)]
        made.append(Parts(pairs, infos, bytes(range(256)) * 10))
    return made


def _vocabulary(model: str, known: range) -> Parts:
    words = "▁the ▁a ▁to the he in an er re th ▁ a b c d e h i n o r s t <0x41> é 世 \\n \\x00 ▁世 ab abc ▁abc".split()
    if model == "gpt2":
        words = [word.replace("▁", "Ġ") for word in words]
    tokens = ["<unk>", "<s>", "</s>", "[CLS]", "<|im_start|>", *(f"<0x{byte:02X}>" for byte in known), *words]
    kinds = [2, 3, 3, 4, 3] + [6] * len(known) + [1] * len(words)
    scores = struct.pack(f"<{len(tokens)}f", *(-0.5 * i for i in range(len(tokens))))
    return Parts(
        [
            _text("general.architecture", "llama"),
            _text("tokenizer.ggml.model", model),
            _text("tokenizer.ggml.pre", "default"),
            _array("tokenizer.ggml.tokens", STRING, [token.encode() for token in tokens]),
            _array("tokenizer.ggml.token_type", 5, struct.pack(f"<{len(kinds)}i", *kinds)),
            _array("tokenizer.ggml.scores", 6, scores),
            _array("tokenizer.ggml.merges", STRING, [b"t h", b"th e", b"h e", b"a b", b"ab c", b"i n"]),
            _array("tokenizer.ggml.precompiled_charsmap", 0, _charsmap() if model == "t5" else b""),
            *(_number(f"tokenizer.ggml.{role}_token_id", id) for role, id in _ROLES.items()),
            Pair(b"tokenizer.ggml.add_bos_token", 7, b"\1"),
            Pair(b"tokenizer.ggml.add_space_prefix", 7, b"\1"),
        ],
        [],
        b"",
    )


_ROLES = {"bos": 1, "eos": 2, "unknown": 0, "cls": 3, "seperator": 2, "eot": 4, "padding": 0}


def _charsmap() -> bytes:
    """Rules that replace nothing: one block of 256 units whose root leads to places without labels."""
    return struct.pack("<I256I", 1024, *[0] * 256) + b"\0"


def _cut(parts: Parts) -> Parts:
    """The first tokens and merges of a vocabulary, and what the file says of those tokens."""
    pairs = []
    for pair in parts.pairs:
        if pair.kind == ARRAY and pair.count > _CUT and not pair.key.endswith(b"charsmap"):
            assert isinstance(pair.value, (bytes, list))
            size = 1 if isinstance(pair.value, list) else len(pair.value) // pair.count
            pair = pair.with_value(pair.value[: _CUT * size])
        pairs.append(pair)
    return Parts(pairs, [], b"")


def _text(key: str, value: str) -> Pair:
    return Pair(key.encode(), STRING, value.encode())


def _number(key: str, value: int) -> Pair:
    return Pair(key.encode(), 4, value.to_bytes(4, "little"))


def _array(key: str, inner: int, value: bytes | list[bytes]) -> Pair:
    return Pair(key.encode(), ARRAY, b"", inner).with_value(value)


SMALL_TEMPLATES = [
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{%- set ns = namespace(last=0, text='') -%}{%- for m in messages if m.role != 'system' -%}"
    "{%- set ns.last = loop.index0 -%}{%- set ns.text = ns.text ~ m.content -%}{%- endfor -%}{{ ns.text }}",
    "{% macro show(x, depth=0) %}{% if x is mapping %}{% for k, v in x | dictsort %}{{ k }}: {{ show(v, depth + 1) }}"
    "{% endfor %}{% elif x is string %}{{ x }}{% else %}{{ x | tojson(indent=2) }}{% endif %}{% endmacro %}"
    "{{ show(messages[0]) }}{% if tools %}{{ tools | tojson }}{% endif %}",
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system prompt') }}{% endif %}"
    "{% for m in messages[::-1] %}{{ '%s: %s' % (m.role, m.content) }}{{ loop.cycle('a', 'b') }}{% endfor %}"
    "{% generation %}{{ strftime_now('%Y-%m-%d') }}{% endgeneration %}",
]
_CONVERSATIONS: list[dict[str, object]] = [
    {"messages": [{"role": "user", "content": "Hi"}], "tools": None},
    {
        "messages": [
            {"role": "system", "content": "Be brief. <|im_end|>"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "<s>"}]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1]}}}]},
            {"role": "tool", "content": '{"y": 2}'},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    },
]
