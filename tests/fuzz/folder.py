"""Target: a folder of Hugging Face's, opened as the GGUF file it would become, its plan, its vocabulary, and converted.

A case is the folder's JSON files and the shapes of its weights, which are zeros."""

from __future__ import annotations

import copy
import functools
import json
import math
import pathlib
import random
import zlib
from typing import Any

from edgeinfer import Tokenizer, files
from edgeinfer.huggingface.convert import convert
from edgeinfer.plan import trace
from tests.fuzz import odd
from tests.fuzz.place import placed_folder
from tests.fuzz.reader import shown
from tests.huggingface import golden

WEIGHTS = "model.safetensors"
_ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        3,
        7,
        2**40,
        10**30,
        -5,
        0.5,
        1e30,
        1e-320,
        math.nan,
        math.inf,
        "x",
        "",
        "yarn",
        "gelu",
    ),
    *([], [1], [[]], [None], [3.5] * 4, ["full_attention"], {}, {"a": 1}, {"rope_type": "yarn"}, {"full_attention": 3}),
]
_ADDED = [{"id": 0, "content": "[UNK]", "special": True}, {"id": 1, "content": "[SEP]", "special": True}]
_AROUND = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_SPLIT = {"type": "Split", "pattern": {"Regex": r"\d"}, "behavior": "Isolated", "invert": False}
_TOKENIZERS: list[dict[str, Any]] = [
    golden.tokenizer(),
    {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "ignore_merges": True},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [_SPLIT, _BYTES]},
        "post_processor": _AROUND,
    },
    {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<0x0A>": 3}, "merges": ["a b"], "unk_token": "a"},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}]},
        "added_tokens": _ADDED,
    },
    {
        "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "[SEP]": 1, "a": 2, "##b": 3}, "unk_token": "[UNK]"},
        "normalizer": {"type": "BertNormalizer", "lowercase": False, "strip_accents": None},
        "added_tokens": _ADDED,
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[SEP]", 1]},
    },
    {
        "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["\u2581a", -1.0], ["b", -2.0]], "unk_id": 0},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Strip"}]},
        "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "always"},
    },
]
_OTHERS: dict[str, Any] = {
    "tokenizer_config.json": {
        "cls_token": "[SEP]",
        "eos_token": {"content": "a"},
        "add_bos_token": True,
        "added_tokens_decoder": {"3": {"content": "b", "special": True}},
        "chat_template": [{"name": "default", "template": "x"}],
    },
    "generation_config.json": {"do_sample": True, "temperature": 0.6, "top_k": 20, "eos_token_id": [1, 2]},
    "modules.json": [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"},
    ],
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    "1_LogitScore/config.json": {"true_token_id": 1, "false_token_id": 2},
}


def prepare() -> None:
    _models()


@functools.cache
def _models() -> list[tuple[dict[str, Any], dict[str, tuple[int, ...]]]]:
    return [golden.load(name)[:2] for name in (*golden.names(), *golden.encoders(), *golden.answers())]


def make(rng: random.Random) -> bytes:
    config, shapes = copy.deepcopy(rng.choice(_models()))
    parts = {"config.json": config, "tokenizer.json": copy.deepcopy(rng.choice(_TOKENIZERS))}
    parts |= {name: copy.deepcopy(part) for name, part in _OTHERS.items() if rng.random() < 0.1}
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.3:
            _reshape(rng, shapes)
        else:
            _change(rng, parts["config.json"] if rng.random() < 0.6 else rng.choice(list(parts.values())))
    return json.dumps({"files": parts, "shapes": shapes}).encode()


def _change(rng: random.Random, part: Any) -> None:
    """One value of an object or a list within it, whatever it is."""
    places = _places(part)
    if places:
        holder, key = rng.choice(places)
        if isinstance(holder, dict) and rng.random() < 0.15:
            del holder[key]
        elif rng.random() < 0.1:
            holder[key] = odd.text(rng, 2).decode("utf-8", "replace")
        else:
            holder[key] = copy.deepcopy(rng.choice(_ODD))


def _places(part: Any) -> list[tuple[Any, Any]]:
    keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
    return [place for key in keys for place in ((part, key), *_places(part[key]))]


def _reshape(rng: random.Random, shapes: dict[str, tuple[int, ...]]) -> None:
    name = rng.choice(list(shapes))
    shape = list(shapes[name])
    kind = rng.randrange(6)
    if kind == 0:
        del shapes[name]
    elif kind == 1:
        shapes[rng.choice(list(shapes)) + rng.choice(["", "x", ".bias"])] = tuple(shape)
    elif kind == 2:
        shapes[name] = tuple(reversed(shape))
    elif kind == 3:
        shapes[name] = (*shape, 2)
    elif shape:
        shape[rng.randrange(len(shape))] = rng.choice([0, 1, 2, 3, 5, 31, 33, 64])
        shapes[name] = tuple(shape[kind == 4 :])


def run(case: bytes) -> None:
    described = json.loads(case)
    raw = {name: json.dumps(part).encode() for name, part in described["files"].items()}
    with placed_folder(raw) as folder:
        _write_zeros(folder / WEIGHTS, described["shapes"])
        with files.open(folder) as file:
            for tensor in file.tensors.values():
                assert tensor.data.nbytes == tensor.nbytes
            trace(file, 40)
            Tokenizer.from_gguf(file).encode("a ab\n")
        kind = zlib.crc32(case) % 8
        if kind < 2:
            convert(folder, folder / "out.gguf")
        elif kind == 2:
            shown(str(folder), case)


def _write_zeros(path: pathlib.Path, shapes: dict[str, list[int]]) -> None:
    """Of the size of float32 numbers, or of bytes where a name says so; the file is a hole behind its header."""
    header, end = {}, 0
    for name, shape in shapes.items():
        packed = name.endswith(("_blocks", "_scales"))
        size = math.prod(shape) * (1 if packed else 4)
        header[name] = {"dtype": "U8" if packed else "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + end)
