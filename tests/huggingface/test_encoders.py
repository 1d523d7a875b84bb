"""Folders of encoders: vocabulary, pooling and pairs as their libraries have them, and what GGUF has no words for."""

import json
import warnings

import numpy as np
import pytest
from tokenizers import Tokenizer as Theirs
from tokenizers import models, normalizers, pre_tokenizers, processors

import edgeinfer
from edgeinfer import files, plan
from edgeinfer.embedding import encode_pairs
from edgeinfer.errors import UnsupportedError
from tests.huggingface import golden
from tests.huggingface.test_golden import pooled

TEMPLATE = "tokenizer.chat_template.rerank"
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


@pytest.mark.parametrize("options", [
    {}, {"lowercase": False}, {"strip_accents": False}, {"lowercase": False, "strip_accents": True},
])  # fmt: skip
def test_capital_letters_and_marks_stay_where_the_folder_says_so(tmp_path, options):
    theirs = word_piece(**options)
    words = ["What", "what", "wh\u00e4t", "Wh\u00e4t", "##h\u00e4t", "A", "\u00c4", "\u00e4", "A\u0308"]
    vocabulary = theirs.get_vocab(with_added_tokens=False)
    theirs.model = models.WordPiece(
        vocabulary | {word: len(vocabulary) + i for i, word in enumerate(words)}, unk_token="[UNK]"
    )
    text = "What is wh\u00e4t? Wh\u00e4t A \u00c4 \u00e4 A\u0308 a\u0308 PANDAS pandas"
    with files.open(write(tmp_path / "m", "bert", theirs)) as file:
        assert edgeinfer.Tokenizer.from_gguf(file).encode(text) == theirs.encode(text).ids
        assert len([key for key in file.metadata if "normalizer" in key]) == (2 if options else 0)


def test_chinese_characters_kept_together_are_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="keeps Chinese characters together"):
        files.open(write(tmp_path / "m", "bert", word_piece(handle_chinese_chars=False))).close()


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


def listed(folder, name, kind, **settings):
    """A module of sentence-transformers' behind the model, and its folder."""
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    (folder / "modules.json").write_text(
        json.dumps([*modules, {"path": name, "type": f"sentence_transformers.{kind}"}])
    )
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(settings))
    return folder / name / "model.safetensors"


def compares(file, yes, no):
    """Whether the score is the probability of the first of two logits."""
    wanted = 1 / (1 + np.exp(no - yes))
    return 0.01 < wanted < 0.99 and abs(pooled(file, "rank") - wanted).max() < 1e-4


def test_a_generating_ranker_compares_two_logits(tmp_path):
    config, shapes, expected = golden.load("qwen3")
    folder = golden.write_folder(tmp_path / "m", config, shapes)
    listed(folder, "1_LogitScore", "cross_encoder.modules.logit_score.LogitScore", true_token_id=41, false_token_id=7)
    with files.open(folder) as file:
        assert plan.stated_pooling(file, causal=True) == "rank" and "{query}" in file.metadata[TEMPLATE]
        assert compares(file, expected[-1, 41], expected[-1, 7])


def test_an_older_ranker_has_its_name_in_its_readme(tmp_path):
    """And the tokens by their texts."""
    config, shapes, expected = golden.load("qwen3")
    folder = golden.write_folder(tmp_path / "m", config, shapes)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Qwen3-Reranker-0.6B\n")
    with pytest.raises(edgeinfer.errors.FormatError, match='tokenizer.json does not say which tokens are "yes"'):
        files.open(folder)
    tokenizer = golden.tokenizer()
    tokenizer["model"]["vocab"] |= {"yes": 60, "no": 61}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with files.open(folder) as file:
        assert compares(file, expected[-1, 60], expected[-1, 61])


def test_embedding_gemma_s_linear_layers_follow_the_pooling(tmp_path):
    config, shapes, rows = golden.load("encoders/embedding_gemma")
    folder = golden.write_folder(tmp_path / "m", config, shapes)
    matrix = golden.weights("2_Dense", (48, 32))
    place = listed(folder, "2_Dense", "models.Dense", activation_function="torch.nn.modules.linear.Identity")
    golden.write_safetensors(place, {"linear.weight": matrix})
    with files.open(folder) as file:
        assert abs(pooled(file, "mean") - matrix @ rows.mean(0)).max() < 1e-3 * rows.std()


@pytest.mark.parametrize("case, activation, words", [
    ("bert", "torch.nn.modules.linear.Identity", "has no use for tensor '2_Dense.linear.weight'"),
    ("embedding_gemma", "torch.nn.modules.activation.Tanh", "2_Dense has the activation"),
])  # fmt: skip
def test_linear_layers_that_gguf_has_not_are_refused(tmp_path, case, activation, words):
    config, shapes, _ = golden.load(f"encoders/{case}")
    folder = golden.write_folder(tmp_path / "m", config, shapes)
    place = listed(folder, "2_Dense", "models.Dense", activation_function=activation)
    golden.write_safetensors(place, {"linear.weight": golden.weights("2_Dense", (48, 32))})
    with pytest.raises(UnsupportedError, match=words):
        files.open(folder)


@pytest.mark.parametrize("modules, words", [
    ("{}", "modules.json is no list of modules"),
    ("[3]", "modules.json is no list of modules"),
    ('[{"path": "../2_Dense", "type": "x.Dense"}]', "which is no folder of this one"),
    ('[{"path": "2_Dense", "type": "x.Dense"}]', "2_Dense has the activation"),
    ('[{"path": "1", "type": "x.LogitScore"}]', "1 does not say which tokens"),
])  # fmt: skip
def test_lists_of_modules_may_be_wrong(tmp_path, modules, words):
    config, shapes, _ = golden.load("qwen3")
    folder = golden.write_folder(tmp_path / "m", config, shapes)
    (folder / "modules.json").write_text(modules)
    with pytest.raises((UnsupportedError, edgeinfer.errors.FormatError), match=words):
        files.open(folder)


@pytest.mark.parametrize("case, options, changes, words", [
    ("bert", {}, {"hidden_act": "gelu_new"}, "the activation is 'gelu_new'"),
    ("bert-ranks", {}, {"shapes": {"classifier.weight": (3, 32), "classifier.bias": (3,)}}, "3 labels"),
    ("modernbert-ranks", {}, {"classifier_pooling": "max"}, "classifier_pooling is neither"),
])  # fmt: skip
def test_what_gguf_has_not_is_refused(tmp_path, case, options, changes, words):
    folder = write(tmp_path / "m", case, word_piece(**options), **changes)
    with pytest.raises((UnsupportedError, edgeinfer.errors.FormatError), match=words):
        files.open(folder)
