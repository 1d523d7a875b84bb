"""Vocabularies of folders: ids equal to those of Hugging Face's and SentencePiece's libraries, trained on the spot."""

import io
import json
import warnings

import numpy as np
import pytest
import sentencepiece
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Theirs

from edgeinfer import files
from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.tokenizer import Tokenizer
from tests.huggingface import golden

LINES = [
    "The quick brown fox jumps over the lazy dog, and doesn't stop.",
    "She sells sea shells by the sea shore; the shells she sells are surely sea shells.",
    "Peter Piper picked 1234 pecks of pickled peppers in 1999.",
    "How much wood would a woodchuck chuck if a woodchuck could chuck wood?",
    "Ein Fuchs läuft über die Brücke. Café, naïve, façade.",
] * 4
TEXTS = [
    *(
        "the sea shells",
        "The  lazy dog's 12345 peppers\n\n  stop",
        "Brücke über Café",
        "日本 and 😀",
        " ",
        "a",
        "\tx \n",
    ),
    "wood chuck shells sea 7",
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<s>", "</s>", "<|im_start|>"]


def write(folder, rows, tokenizer=None, model=None, case="qwen2", **others):
    """A folder of a tiny model with `rows` tokens; `others` are JSON files by their names without .json."""
    config, shapes, _ = golden.load(case)
    config |= {"bos_token_id": None, "eos_token_id": None, "tie_word_embeddings": True}
    shapes = {
        n: (rows, 32) if n == "model.embed_tokens.weight" else s for n, s in shapes.items() if n != "lm_head.weight"
    }
    golden.write_folder(folder, config | others.pop("config", {}), shapes)
    (folder / "tokenizer.json").unlink()
    if tokenizer is not None:
        text = tokenizer if isinstance(tokenizer, str) else tokenizer.to_str()
        (folder / "tokenizer.json").write_text(text)
    if model is not None:
        (folder / "tokenizer.model").write_bytes(model)
    for name, value in others.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def opened(folder):
    with files.open(folder) as file:
        return Tokenizer.from_gguf(file), dict(file.metadata)


def byte_level(expression):
    theirs = Theirs(models.BPE(ignore_merges=expression == LLAMA3))
    steps = [] if expression is None else [pre_tokenizers.Split(Regex(expression), "isolated")]
    theirs.pre_tokenizer = pre_tokenizers.Sequence(
        [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=expression is None)]
    )
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    theirs.train_from_iterator(LINES, trainer)
    theirs.add_tokens([AddedToken("<user>", normalized=False)])
    theirs.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return theirs


def trained(kind, **options):
    """A SentencePiece model's bytes."""
    out = io.BytesIO()
    settings = {"vocab_size": 120, "model_type": kind, "minloglevel": 2, "hard_vocab_limit": False} | options
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=out, **settings)
    return out.getvalue()


def loaded(model):
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor


@pytest.mark.parametrize(("expression", "name"), [(None, "gpt-2"), (LLAMA3, "llama3")])
def test_byte_level_bpe(tmp_path, expression, name):
    theirs = byte_level(expression)
    count = theirs.get_vocab_size()
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ messages }}"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, metadata = opened(write(tmp_path / "m", count + 3, theirs, tokenizer_config=settings))
    assert metadata["tokenizer.ggml.pre"] == name
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text).ids, text
        assert ours.decode(ours.encode(text)) == text.encode()
    assert ours.encode("a<user><s>", parse_special=True) == theirs.encode("a<user><s>").ids
    assert (ours.bos_id, ours.eos_id, ours.add_bos, ours.add_eos) == (0, 1, True, False)
    assert metadata["tokenizer.chat_template"] == "{{ messages }}"
    assert list(metadata["tokenizer.ggml.token_type"][[0, 3, count - 1, count]]) == [3, 1, 4, 5]


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_sentencepiece_bpe(tmp_path, byte_fallback):
    model = trained("bpe", byte_fallback=byte_fallback, vocab_size=400 if byte_fallback else 120)
    theirs = loaded(model)
    ours, metadata = opened(write(tmp_path / "m", theirs.get_piece_size(), model=model))
    assert metadata["tokenizer.ggml.model"] == "llama"
    known = [text for text in TEXTS if byte_fallback or theirs.unk_id() not in theirs.encode(text)]
    assert len(known) >= 3
    for text in ["the sea shells", "Brücke", *known]:
        if "  " not in text and text.strip() == text:  # GGUF has no word for blanks that are dropped
            assert ours.encode(text, add_special=False) == theirs.encode(text), text


def test_sentencepiece_bpe_of_tokenizer_json(tmp_path):
    """Scores come from the order of the pairs; tokenizer.model's count where it is there too."""
    model = trained("bpe", byte_fallback=True, vocab_size=400, add_dummy_prefix=True)
    theirs = loaded(model)
    pieces = [theirs.id_to_piece(id) for id in range(theirs.get_piece_size())]
    ids = {piece: id for id, piece in enumerate(pieces)}
    merges = [
        (piece[:i], piece[i:])
        for piece in sorted(pieces, key=lambda piece: -theirs.get_score(ids[piece]))
        if not theirs.is_byte(ids[piece]) and not theirs.is_control(ids[piece])
        for i in range(1, len(piece))
        if piece[:i] in ids and piece[i:] in ids
    ]
    again = Theirs(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    again.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    again.add_special_tokens(["<unk>", "<s>", "</s>"])
    folder = write(tmp_path / "m", len(pieces), again, tokenizer_config={"bos_token": "<s>", "add_bos_token": True})
    ours, metadata = opened(folder)
    assert metadata["tokenizer.ggml.add_space_prefix"] is True and ours.add_bos
    texts = ["the sea shells", "The  lazy dog's 12345 peppers\n\n  stop", "Brücke über Café", "日本 and 😀"]
    for text in texts:
        assert ours.encode(text, add_special=False) == again.encode(text).ids, text
    (folder / "tokenizer.model").write_bytes(model)
    scored, metadata = opened(folder)
    assert np.allclose(metadata["tokenizer.ggml.scores"], [theirs.get_score(id) for id in range(len(pieces))])
    assert [scored.encode(text) for text in texts] == [ours.encode(text) for text in texts]
    assert list(metadata["tokenizer.ggml.token_type"][:4]) == [2, 3, 3, 6]


def test_gemma_4_keeps_the_pairs(tmp_path):
    """Two pairs make one piece, and a third comes between them: no order of pieces says that."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc", "ab", "bc", "abc", "\n", "\n\n", "▁a"]
    ids = {piece: id for id, piece in enumerate(pieces)}
    merges = [("ab", "c"), ("b", "c"), ("a", "b"), ("a", "bc"), ("\n", "\n"), ("▁", "a")]
    theirs = Theirs(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True))
    theirs.normalizer = normalizers.Replace(" ", "▁")
    theirs.add_special_tokens(["<unk>"])
    ours, metadata = opened(write(tmp_path / "m", len(pieces), theirs, case="gemma4-experts"))
    assert metadata["tokenizer.ggml.model"] == "gemma4"
    for text in ["abc", "ab c", "bcab", " a aab\n\nb", "é a"]:
        assert ours.encode(text, add_special=False) == theirs.encode(text).ids, text


def test_unigram(tmp_path):
    model = trained("unigram")
    theirs = loaded(model)
    ours, metadata = opened(write(tmp_path / "m", theirs.get_piece_size(), model=model))
    assert metadata["tokenizer.ggml.model"] == "t5"
    for text in TEXTS:
        assert ours.encode(text, add_special=False) == theirs.encode(text), text
    rows = [[theirs.id_to_piece(id), theirs.get_score(id)] for id in range(theirs.get_piece_size())]
    described = {"model": {"type": "Unigram", "unk_id": 0, "vocab": rows}, "pre_tokenizer": {"type": "Metaspace"}}
    ours, metadata = opened(write(tmp_path / "n", len(rows), json.dumps(described)))
    assert ours.encode("the sea shells", add_special=False) == theirs.encode("the sea shells")
    assert metadata["tokenizer.ggml.token_type"][0] == 2


def test_wordpiece(tmp_path):
    theirs = Theirs(models.WordPiece(unk_token="[UNK]"))
    theirs.normalizer, theirs.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    theirs.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    )
    theirs.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    settings = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    ours, _ = opened(write(tmp_path / "m", theirs.get_vocab_size(), theirs, tokenizer_config=settings))
    for text in ["the sea shells", "The lazy dog's peppers", "Brücke 日本"]:
        assert ours.encode(text) == theirs.encode(text).ids, text


def test_ids_of_config_and_generation_config(tmp_path):
    theirs = byte_level(None)
    config = {"bos_token_id": 0, "eos_token_id": [1, 2, 9]}
    settings = {"do_sample": True, "temperature": 0.5, "top_k": 7, "eos_token_id": 1}
    others = {"config": config, "generation_config": settings}
    ours, metadata = opened(write(tmp_path / "m", theirs.get_vocab_size(), theirs, **others))
    assert (ours.bos_id, ours.eos_id) == (0, 1)
    assert {1, 2, 9} <= ours.eog_ids
    assert metadata["general.sampling.temp"] == 0.5 and metadata["general.sampling.top_k"] == 7


def test_templates(tmp_path):
    listed = {"chat_template": [{"name": "default", "template": "one"}, {"name": "tools", "template": "two"}]}
    folder = write(tmp_path / "m", 400, byte_level(None), tokenizer_config=listed)
    _, metadata = opened(folder)
    assert metadata["tokenizer.chat_template"] == "one" and metadata["tokenizer.chat_template.tools"] == "two"
    (folder / "chat_template.jinja").write_text("three")
    assert opened(folder)[1]["tokenizer.chat_template"] == "three"


@pytest.mark.parametrize("step", [3, {"type": []}, {"type": "Sequence", "normalizers": 3}, {"normalizers": [3, None]}])
def test_steps_that_are_none_are_left_out(tmp_path, step):
    described = {
        "model": {"type": "WordPiece", "vocab": {"a": 0, "##b": 1}},
        "normalizer": step,
        "post_processor": step,
    }
    _, metadata = opened(write(tmp_path / "m", 2, json.dumps(described)))
    assert metadata["tokenizer.ggml.tokens"] == ["\u2581a", "b"]
    assert metadata["tokenizer.ggml.normalizer.lowercase"] is False


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"model": {"type": "WordLevel", "vocab": {}}},
        {"model": {"type": "BPE", "vocab": {"a": 0}}},
        {"model": {"type": "BPE", "vocab": ["a"], "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": 1.5}, "merges": []}},
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [3]}},
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": "0"}]},
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": 3},
        {"model": {"type": "Unigram", "vocab": [["a"]]}},
        {
            "model": {"type": "Unigram", "vocab": [["a", 0]]},
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"},
        },
        {"model": {"type": "BPE", "vocab": {}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}},
    ],
)
def test_a_malformed_tokenizer_json(tmp_path, described):
    with pytest.raises((FormatError, UnsupportedError), match="tokenizer.json") as error:
        opened(write(tmp_path / "m", 8, json.dumps(described)))
    assert "\n" not in str(error.value)


def test_a_malformed_tokenizer_model(tmp_path):
    """Cut or changed anywhere it is an error of ours, or a model."""
    good = trained("bpe", vocab_size=90)
    folder = write(tmp_path / "m", 90, model=good)
    rng = np.random.RandomState(0)
    refused = 0
    for i in range(60):
        raw = bytearray(good[: rng.randint(len(good))] if i % 2 else good)
        for _ in range(3 * (i % 2 == 0)):
            raw[rng.randint(len(raw))] = rng.randint(256)
        (folder / "tokenizer.model").write_bytes(raw)
        try:
            opened(folder)
        except EdgeInferError:
            refused += 1
    assert refused > 10
