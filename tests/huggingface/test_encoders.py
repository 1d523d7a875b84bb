"""Folders of encoders: vocabulary, pooling and pairs as their libraries have them, and what GGUF has no words for."""

import json
import warnings

import pytest
from tokenizers import Tokenizer as Theirs
from tokenizers import models, normalizers, pre_tokenizers, processors

import edgeinfer
from edgeinfer import files, plan
from edgeinfer.embedding import encode_pairs
from edgeinfer.errors import UnsupportedError
from tests.huggingface import golden

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
SETTINGS = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
QUERY, DOCUMENTS = "What is a panda?", ["a bear", "hi", "a panda is a bear that eats"]


def word_piece(**options):
    words = [*SPECIAL, *"what is a panda bear that eats hi ?".split(), *(f"##{c}" for c in "ndas"), *"pbh"]
    theirs = Theirs(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    theirs.add_special_tokens(SPECIAL)
    theirs.normalizer = normalizers.BertNormalizer(**options)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return theirs


def write(folder, case, theirs, **changes):
    config, shapes, _ = golden.load(f"encoders/{case}")
    config |= {"bos_token_id": None, "eos_token_id": None}
    golden.write_folder(folder, config | changes, shapes | changes.pop("shapes", {}))
    (folder / "tokenizer.json").write_text(theirs.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    return folder


def test_a_cross_encoder_ranks(tmp_path):
    theirs = word_piece()
    folder = write(tmp_path / "m", "bert-ranks", theirs)
    with files.open(folder) as file:
        ids = encode_pairs(edgeinfer.Tokenizer.from_gguf(file), file, QUERY, DOCUMENTS)
        assert ids == [theirs.encode(QUERY, document).ids for document in DOCUMENTS]
        ops = plan.trace(file, 32, "rank").ops
        assert [op.attrs["separator"] for op in ops if op.kind == "segments"] == [3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with edgeinfer.LLM(folder, n_ctx=32, backend="reference") as llm:
            ranked = llm.rerank(QUERY, DOCUMENTS)
    assert sorted(found.index for found in ranked) == [0, 1, 2] and len({found.score for found in ranked}) == 3


@pytest.mark.parametrize("settings, pooling", [
    ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
    ({"pooling_mode_mean_tokens": True}, "mean"),
    ({"pooling_mode": "lasttoken"}, "last"),
    ({"pooling_mode_max_tokens": True}, "mean"),  # which GGUF has not
])  # fmt: skip
def test_pooling_is_that_of_sentence_transformers(tmp_path, settings, pooling):
    folder = write(tmp_path / "m", "bert", word_piece())
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    with files.open(folder) as file:
        assert plan.stated_pooling(file, causal=False) == pooling


def test_qwen3_s_reranker_has_its_template(tmp_path):
    config, shapes, _ = golden.load("encoders/qwen3-ranks")
    with files.open(golden.write_folder(tmp_path / "m", config, shapes)) as file:
        template = file.get("tokenizer.chat_template.rerank", str)
        assert template.count("{query}") == template.count("{document}") == 1 and template.endswith("</think>\n\n")


@pytest.mark.parametrize("case, options, changes, words", [
    ("bert", {"lowercase": False}, {}, "capital letters"),
    ("bert", {}, {"hidden_act": "gelu_new"}, "the activation is 'gelu_new'"),
    ("bert-ranks", {}, {"shapes": {"classifier.weight": (3, 32), "classifier.bias": (3,)}}, "3 labels"),
    ("modernbert-ranks", {}, {"classifier_pooling": "max"}, "classifier_pooling is neither"),
])  # fmt: skip
def test_what_gguf_has_not_is_refused(tmp_path, case, options, changes, words):
    folder = write(tmp_path / "m", case, word_piece(**options), **changes)
    with pytest.raises((UnsupportedError, edgeinfer.errors.FormatError), match=words):
        files.open(folder)
