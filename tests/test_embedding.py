"""Embedding and reranking as users see them: packing, shapes, errors, and what a model is not made for."""

import threading

import numpy as np
import pytest

import edgeinfer
from edgeinfer import embedding
from edgeinfer.errors import BackendError, ContextFullError, FormatError, RequestError
from tests import tiny
from tests.models.encoders import CASES, CONTEXT, DIM, DOCUMENTS, QUERY

WORDS = ["a", "b c", "c d e f", "", "a b c d e f g h i"] * 9


@pytest.fixture(params=["reference", "cpu"])
def load(request, tmp_path):
    """load(name of a case or a path, ...) -> an LLM that is closed when the test ends."""
    made = []

    def one(model, **options):
        path = CASES[model].write(tmp_path / f"{model}.gguf") if model in CASES else model
        made.append(edgeinfer.LLM(path, backend=request.param, n_threads=2, **options))
        return made[-1]

    yield one
    for llm in made:
        llm.close()


@pytest.mark.parametrize("name", ["bert", "modern-bert", "qwen3"])
def test_a_text_alone_is_as_in_any_company(load, name):
    """But for the order of sums, which depends on how many rows a step has."""
    llm = load(name, kv_type="f32")
    texts = [text or "a" for text in WORDS]
    together = llm.embed(texts, "mean")
    assert together.shape == (45, DIM) and together.dtype == np.float32
    alone = np.concatenate([llm.embed([text], "mean") for text in texts[:5]])
    assert np.allclose(together, np.tile(alone, (9, 1)), atol=5e-6)
    assert len({row.tobytes() for row in alone}) == 4  # the empty one is read as a


def test_vectors_have_length_1_unless_asked_otherwise(load):
    llm = load("bert")
    plain, unit = llm.embed(WORDS, normalize=False), llm.embed(WORDS)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert (np.abs(lengths - 1) > 0.1).all() and np.allclose(unit, plain / lengths, atol=1e-6)


def test_dimensions_are_the_first_ones_at_length_1(load):
    llm = load("bert")
    plain = llm.embed(WORDS, normalize=False)[:, :5]
    assert np.allclose(llm.embed(WORDS, dimensions=5), plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)
    assert (llm.embed(WORDS, normalize=False, dimensions=5) == plain).all()
    for wrong in (0, DIM + 1, 2.5, True):
        with pytest.raises(RequestError, match=f"dimensions is .*{wrong}.*1 to {DIM}"):
            llm.embed(WORDS, dimensions=wrong)


def test_texts_may_be_bytes_or_ids_too(load):
    llm = load("bert")
    got = llm.embed(["b a", b"b a", llm.tokenize("b a"), np.array([2, 5, 4, 3]).tolist()])
    assert (got == got[0]).all()


@pytest.mark.parametrize("texts", ["a", b"a", 7, None, {"a": 1}, {"a"}])
def test_what_is_no_list_of_texts(load, texts):
    with pytest.raises(RequestError, match="texts must be a list of texts, not "):
        load("bert").embed(texts)


def test_nothing_to_embed(load):
    with pytest.raises(RequestError, match="texts is empty"):
        load("bert").embed([])
    bare = load(tiny.write(load("bert").path + ".llama"))
    with pytest.raises(RequestError, match="text 1 is empty, and this model puts no token"):
        bare.embed(["a", ""])


@pytest.mark.parametrize("text", [3, None, [["a"]], [1.5], [60], [-1]])
def test_what_is_no_text(load, text):
    with pytest.raises(RequestError, match="token id"):
        load("bert").embed(["a", text])


def test_a_text_may_be_as_long_as_the_context_and_no_longer(load):
    llm = load("bert", n_batch=8)
    assert llm.embed(["a " * (CONTEXT - 2)]).shape == (1, DIM)
    with pytest.raises(ContextFullError, match=f"text 1 has {CONTEXT + 1} tokens; n_ctx leaves room for {CONTEXT}"):
        llm.embed(["a", "a " * (CONTEXT - 1)])
    with pytest.raises(ContextFullError, match="text 0 has 11 tokens"):
        load("bert", n_ctx=10).embed(["a b c d e f g h i"])


def test_pooling_is_one_of_three(load):
    for wrong in ("none", "rank", 1):
        with pytest.raises(RequestError, match="pooling is .*must be one of mean, cls, last"):
            load("bert").embed(["a"], pooling=wrong)


def test_a_decoder_embeds_and_still_generates(load, tmp_path):
    llm = load(tiny.write(tmp_path / "m.gguf"))
    before = llm.generate("the token", max_tokens=4, temperature=0).ids
    assert (llm.embed(["the token", "a line"]) == llm.embed(["the token", "a line"], "last")).all()
    assert llm.generate("the token", max_tokens=4, temperature=0).ids == before


def test_the_last_row_of_a_decoder_gives_its_logits(load, tmp_path):
    """An embedding is what the output matrix is applied to."""
    path = tiny.write(tmp_path / "m.gguf", tied=True)
    llm = load(path, kv_type="f32")
    with edgeinfer.formats.gguf.open(path) as file:
        matrix = file.tensors["token_embd.weight"].float32()
    row = llm.embed(["the token"], normalize=False)[0]
    assert np.allclose(matrix @ row, llm.logits(llm.tokenize("the token"))[-1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name, made_for", [("bert", "embed"), ("xlm-r", "rank")])
def test_an_encoder_does_not_generate(load, name, made_for):
    llm = load(name)
    for call in (
        lambda: llm.generate("a"),
        lambda: llm.chat([{"role": "user", "content": "a"}]),
        lambda: llm.logits([4]),
    ):
        with pytest.raises(RequestError, match=f"this bert model is made to {made_for} texts .* cannot generate"):
            call()


def test_a_model_made_to_rank_embeds_only_if_told_how(load):
    llm = load("xlm-r")
    with pytest.raises(RequestError, match="made to rank texts"):
        llm.embed(["a"])
    assert llm.embed(["a"], pooling="mean").shape == (1, DIM)


@pytest.mark.parametrize("model", ["nomic-bert", "llama"])
def test_what_has_no_classifier_does_not_rank(load, tmp_path, model):
    llm = load(tiny.write(tmp_path / "m.gguf") if model == "llama" else model)
    with pytest.raises(RequestError, match=f"this {model} model has no classifier"):
        llm.rerank("a", ["b"])


def test_ranking_is_best_first_and_keeps_the_order_of_equals(load):
    ranked = load("bert").rerank(QUERY, [*DOCUMENTS, *DOCUMENTS])
    assert sorted(found.index for found in ranked) == list(range(6))
    assert ranked == sorted(ranked, key=lambda found: (-found.score, found.index))
    order = [found.index for found in ranked]
    assert [index for index in order if index < 3] == [index - 3 for index in order if index > 2]


def test_ranking_refuses_what_is_no_text(load):
    llm = load("bert")
    assert llm.rerank("a", []) == []
    for query, documents in (("a", "b"), ("a", None), (b"a", ["b"]), ("a", ["b", 3])):
        with pytest.raises(RequestError, match="documents must be"):
            llm.rerank(query, documents)


def test_a_query_cannot_write_the_template_s_control_tokens(load):
    llm = load("qwen3")
    (ids,) = embedding.encode_pairs(llm.tokenizer, llm._file, "<|im_end|>", ["{query}"])
    assert ids[0] == 298 and ids[-1] == 299 and 299 not in ids[1:-1]
    assert llm.detokenize(ids[1:-1]) == b"<|im_end|>|{query}"


def test_a_file_that_does_not_say_how_to_read_pairs(load, tmp_path):
    keys = {key: value for key, value in CASES["qwen3"].vocab.items() if "rerank" not in key and "add_eos" not in key}
    case = CASES["qwen3"].__class__("qwen3", CASES["qwen3"].keys, CASES["qwen3"].shapes, keys)
    with pytest.raises(RequestError, match="does not say how this model reads a query and a document"):
        load(case.write(tmp_path / "m.gguf")).rerank("a", ["b"])


def test_an_unknown_pooling_type_is_named(load, tmp_path):
    with pytest.raises(FormatError, match="bert.pooling_type is 9, known are"):
        load(CASES["bert"].write(tmp_path / "m.gguf", pooling_type=9))


def test_numbers_that_are_not_finite_are_an_error(load, tmp_path):
    def broken(keys, tensors):
        tensors["output_norm.weight"][0][3] = np.nan

    with pytest.raises(BackendError, match="not finite"):
        load(tiny.write(tmp_path / "m.gguf", edit=broken)).embed(["the token"])


def test_several_threads_at_once(load):
    llm = load("bert")
    want, got = llm.embed(WORDS), [None] * 4

    def work(number):
        got[number] = llm.embed(WORDS, pooling=None if number % 2 else "cls")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((rows == want).all() for rows in got)


def test_after_close_there_is_nothing(load):
    llm = load("bert")
    llm.embed(["a"])
    llm.close()
    for call in (lambda: llm.embed(["a"]), lambda: llm.embed(["a"], "last"), lambda: llm.rerank("a", ["b"])):
        with pytest.raises(RequestError, match="closed"):
            call()


def test_steps_are_packed_shortest_first_and_to_the_brim():
    assert list(embedding._packed([5, 1, 9, 3, 2], 8)) == [[1, 4, 3], [0], [2]]
    assert [len(step) for step in embedding._packed([1] * 40, 512)] == [16, 16, 8]
    assert list(embedding._packed([], 8)) == []


def test_a_zero_vector_stays_zero():
    assert embedding.shaped(np.zeros((1, 4), np.float32), None, True).tolist() == [[0, 0, 0, 0]]


def test_vectors_whose_squares_no_float32_holds_are_normalised():
    rows = np.array([[3e25, 4e25], [3e-25, 4e-25]], np.float32)
    with np.errstate(all="raise"):
        found = embedding.shaped(rows, None, True)
    assert found.dtype == np.float32 and np.allclose(found, [[0.6, 0.8]] * 2, atol=1e-6)
