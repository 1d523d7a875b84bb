"""A model that reads a text and answers it, as users meet it; decoders.py has what its logits are."""

import threading

import numpy as np
import pytest

import edgeinfer
from edgeinfer import memory
from edgeinfer.backend import Chunk
from edgeinfer.errors import BackendError, ContextFullError, FormatError, RequestError
from edgeinfer.formats import gguf
from tests.models.decoders import ANSWERS, COMMON, DIM

EOS = 2
GREEDY = {"max_tokens": 10, "temperature": 0, "ignore_eos": True}
CONTEXT = COMMON["context_length"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return ANSWERS["t5-untied"].write(tmp_path_factory.mktemp("t5") / "m.gguf")


@pytest.fixture(params=["cpu", "reference"])
def llm(request, path, home, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    override = {"tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": True}
    options = {"n_threads": 2, "n_batch": 8, "kv_type": "f32", "override": override}
    with edgeinfer.LLM(path, backend=request.param, **options) as llm:
        yield llm


def test_a_text_is_answered_with_its_eos_and_given_ids_as_they_are(llm):
    assert llm.answers
    ids = llm.tokenize("the dog on", add_special=False)
    answer = llm.generate("the dog on", **GREEDY)
    assert len(answer.ids) == 10 and answer.usage.prompt_tokens == len(ids) + 2  # EOS, and what an answer begins with
    assert llm.generate([*ids, EOS], **GREEDY).ids == answer.ids != llm.generate(ids, **GREEDY).ids


def test_the_decoder_begins_where_the_file_says(llm, path):
    with edgeinfer.LLM(path, kv_type="f32", override={"t5.decoder_start_token_id": 9}) as other:
        assert other.generate([7, 8, EOS], **GREEDY).ids != llm.generate([7, 8, EOS], **GREEDY).ids


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_no_other_layers_are_stated_than_there_are(path, count):
    fault = f"the number of dec.blk layers is {count}, but the file has tensors of 2 layers"
    with pytest.raises(FormatError, match=fault):
        edgeinfer.LLM(path, override={"t5.decoder_block_count": count})


def test_a_text_read_before_is_not_read_again_and_no_other_is_taken_for_it(llm):
    texts = [[7, 8, 9, EOS], [7, 8, 10, EOS], [7, 8, EOS], [7, 8, 9, 11, EOS], [30, EOS], [31, EOS]]
    fresh = [llm.generate(text, seed=1, **GREEDY) for text in texts]
    assert {answer.usage.cached_tokens for answer in fresh} == {0} and len({str(answer.ids) for answer in fresh}) > 4
    for text, wanted in zip(texts, fresh, strict=True):
        assert [llm.generate(text, **GREEDY).ids for _ in range(2)] == [wanted.ids] * 2
    again = llm.generate(texts[-1], **GREEDY)
    assert again.usage.cached_tokens == 2 and again.ids == fresh[-1].ids


def test_several_threads_get_their_own_answers(llm):
    texts = [[number, number + 1, EOS] for number in range(5, 11)]
    wanted = [llm.generate(text, **GREEDY).ids for text in texts]
    found = {}

    def ask(number):
        found[number] = [llm.generate(text, **GREEDY).ids for text in texts[number:] + texts[:number]]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: wanted[number:] + wanted[:number] for number in range(6)}


def test_streams_stops_and_an_answer_as_long_as_the_context(llm):
    whole = llm.generate([7, 8, EOS], **GREEDY)
    assert [chunk.id for chunk in llm.stream([7, 8, EOS], **GREEDY)] == whole.ids
    stop = whole.text[3:5]
    assert llm.generate([7, 8, EOS], stop=stop, **GREEDY).text == whole.text[: whole.text.index(stop)]
    long = llm.generate([5] * CONTEXT, **{**GREEDY, "max_tokens": 999})
    assert long.finish_reason == "length" and len(long.ids) == CONTEXT - 1


def test_what_it_cannot_do_is_refused_in_one_line(llm):
    with pytest.raises(ContextFullError, match="the prompt has 65 tokens; n_ctx 64 leaves room for 64"):
        llm.generate([5] * 65)
    with pytest.raises(RequestError, match="this t5 model answers texts"):
        llm.logits([5])
    with pytest.raises(RequestError, match="no chat template"):
        llm.chat([{"role": "user", "content": "hi"}])
    with pytest.raises(RequestError, match="no classifier"):
        llm.rerank("a", ["b"])


def test_its_encoder_embeds(llm):
    rows = llm.embed([[7, 8, EOS], [7, 8, EOS], [9, EOS]])
    assert rows.shape == (3, DIM) and (rows[0] == rows[1]).all() and abs(rows[0] @ rows[2]) < 0.999


def test_a_backend_answers_no_text_that_it_has_not_read(llm):
    plan = llm._engine.plan
    backend = llm._backend(plan)
    seq = backend.open()
    with pytest.raises(RequestError, match="before the text that it is to answer"):
        backend.step_top(Chunk(seq, [3], 1), 1)
    with pytest.raises(RequestError, match="a step of 0 tokens"):
        backend.read_text(seq, [])
    with pytest.raises(RequestError, match="not in the vocabulary"):
        backend.read_text(seq, [10**6])
    backend.read_text(seq, [5])
    backend.step_top(Chunk(seq, [3], 1), 1)
    backend.close_sequence(seq)
    assert not backend.has_text(backend.open())
    backend.close()


def test_memory_counts_what_is_kept_of_the_text_and_one_layer_of_its_reader(llm):
    plan = llm._engine.plan
    rows = {
        name: [op.attrs["kv_heads"] * (op.attrs["key_dim"] + op.attrs["value_dim"]) for op in ops if op.caches]
        for name, ops in (("stored", [op for op in plan.reader.ops if op.kind == "store"]), ("own", plan.ops))
    }
    read = [op for op in plan.reader.ops if op.kind == "attend"]
    assert len(rows["stored"]) == 2 and len(read) == 4 and {op.attrs["layer"] for op in read} == {0}
    one = read[0].attrs["kv_heads"] * (read[0].attrs["key_dim"] + read[0].attrs["value_dim"])
    assert memory.kv_bytes(plan, "f32", 64, 8) == 64 * 4 * (sum(rows["stored"]) + sum(rows["own"]) + one)


def test_biases_too_large_for_the_kernels_end_as_weights_that_are_not_finite(tmp_path, home, monkeypatch, recwarn):
    monkeypatch.setenv("EDGEINFER_HOME", str(home))
    path = ANSWERS["t5"].write(tmp_path / "m.gguf")
    with gguf.open(path) as file:
        biases = file.tensors["enc.blk.0.attn_rel_b.weight"]
        start, stop = biases.offset, biases.offset + biases.nbytes
    raw = bytearray(path.read_bytes())
    raw[start:stop] = np.full((stop - start) // 4, 3e38, np.float32).tobytes()
    path.write_bytes(raw)
    with edgeinfer.LLM(path) as llm, pytest.raises(BackendError, match="non-finite logits"):
        llm.generate([5], max_tokens=1)
    assert not recwarn.list
