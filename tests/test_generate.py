"""The loop, on models whose answers are known, by the reference backend."""

import numpy as np
import pytest

from edgeinfer import LLM
from edgeinfer.errors import BackendError, ContextFullError
from tests import markov

F = markov.FIRST
GREEDY = {"temperature": 0.0}


@pytest.fixture
def model(tmp_path):
    """A function that writes a model and loads it by the reference backend; closed at the end of the test."""
    opened = []

    def load(tokens, table, n_ctx=None, n_batch=512, **options):
        path = markov.write(tmp_path / f"{len(opened)}.gguf", tokens, table, **options)
        opened.append(LLM(path, n_ctx=n_ctx, n_batch=n_batch, backend="reference"))
        return opened[-1]

    yield load
    for llm in opened:
        llm.close()


@pytest.fixture
def story(model):
    """Says " alpha beta gamma" after "go", in tokens go| al|pha| be|ta| gam|ma."""
    return model(["go", "▁al", "pha", "▁be", "ta", "▁gam", "ma"], markov.sentence(*range(F, F + 7)))


@pytest.fixture
def endless(model):
    """Says "a" for ever."""
    return lambda **options: model(["a"], markov.chain((markov.BOS, F), (F, F)), **options)


def both(llm, prompt, **options):
    """The completion, which must be the same in one piece and streamed; and the chunks."""
    whole, chunks = llm.generate(prompt, **options), list(llm.stream(prompt, **options))
    assert whole.text == "".join(chunk.text for chunk in chunks)
    assert whole.ids == [chunk.id for chunk in chunks if chunk.id is not None]
    assert whole.finish_reason == chunks[-1].finish_reason
    assert all(chunk.finish_reason is None is chunk.usage for chunk in chunks[:-1])
    assert whole.usage.completion_tokens == chunks[-1].usage.completion_tokens == len(whole.ids)
    return whole, chunks


def test_answer_ends_where_the_model_ends_it(story):
    answer, chunks = both(story, "go", **GREEDY)
    assert (answer.text, answer.finish_reason) == (" alpha beta gamma", "stop")
    assert answer.ids == [*range(F + 1, F + 7)]
    assert [chunk.text for chunk in chunks] == [" al", "pha", " be", "ta", " gam", "ma", ""]
    assert chunks[-1].id is None
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.total_tokens) == (2, 6, 0, 8)


def test_max_tokens(story):
    answer, chunks = both(story, "go", max_tokens=3, **GREEDY)
    assert (answer.text, answer.finish_reason, len(chunks)) == (" alpha be", "length", 3)
    answer, chunks = both(story, "go", max_tokens=0, **GREEDY)
    assert (answer.text, answer.ids, answer.finish_reason, len(chunks)) == ("", [], "length", 1)


def test_ignore_eos_goes_on_through_it(story):
    answer, chunks = both(story, "go", max_tokens=9, ignore_eos=True, **GREEDY)
    assert answer.ids[6] == markov.EOS and len(answer.ids) == len(chunks) == 9
    assert (answer.text[:17], answer.finish_reason) == (" alpha beta gamma", "length")


@pytest.mark.parametrize(
    "stop, text, reason",
    [
        ("ha be", " alp", "stop"),  # over a border of tokens
        (["ha be"], " alp", "stop"),
        ("a bex", " alpha beta gamma", "stop"),  # nearly
        (["zzz", "ta"], " alpha be", "stop"),
        (["gamma", "eta gam"], " alpha b", "stop"),
        (" ", "", "stop"),
        ("gamma", " alpha beta ", "stop"),
        ("gamma!", " alpha beta gamma", "stop"),  # held back until the end, then given out
    ],
)
def test_stop_strings(story, stop, text, reason):
    answer, _ = both(story, "go", stop=stop, **GREEDY)
    assert (answer.text, answer.finish_reason) == (text, reason)


def test_stop_string_held_back_is_given_out_at_max_tokens(story):
    answer, chunks = both(story, "go", stop="ta gar", max_tokens=5, **GREEDY)
    assert (answer.text, answer.finish_reason) == (" alpha beta gam", "length")
    assert [chunk.text for chunk in chunks] == [" al", "pha", " be", "", "ta gam"]


def test_stopped_text_is_no_part_of_what_is_reused(story):
    assert story.generate("go", stop="ta", **GREEDY).text == " alpha be"
    assert story.generate("go", **GREEDY).text == " alpha beta gamma"
    assert story.generate([markov.BOS, *range(F, F + 4)], **GREEDY).text == "ta gamma"


def test_characters_of_several_tokens_come_whole(model):
    face = [markov.BYTES + byte for byte in "😀".encode()]
    llm = model(["A", "!"], markov.sentence(F, *face, F + 1))
    answer, chunks = both(llm, "A", **GREEDY)
    assert [chunk.text for chunk in chunks] == ["", "", "", "😀", "!", ""]
    answer, _ = both(llm, "A", max_tokens=2, **GREEDY)
    assert (answer.text, answer.finish_reason, len(answer.ids)) == ("\ufffd", "length", 2)


def test_any_token_that_ends_a_turn_ends_it_and_is_not_shown(model):
    llm = model(["a", "<|im_end|>"], markov.sentence(F, F + 1), control=("<|im_end|>",))
    assert both(llm, "a", **GREEDY)[0].text == ""
    biased, _ = both(model(["a", "<|eot_id|>"], markov.chain((F, F))), "a", logit_bias={F + 1: 100}, **GREEDY)
    assert (biased.text, biased.ids, biased.finish_reason) == ("", [], "stop")


def test_context_is_used_to_its_last_token(endless):
    llm = endless(n_ctx=16, n_batch=16)
    answer, _ = both(llm, "a" * 14, **GREEDY)
    assert (answer.text, answer.finish_reason) == ("a", "length")
    with pytest.raises(ContextFullError, match="16 tokens; n_ctx 16 leaves room for 15"):
        llm.generate("a" * 15, **GREEDY)
    answer, _ = both(llm, "a", max_tokens=1000, **GREEDY)
    assert (answer.finish_reason, answer.usage.total_tokens) == ("length", 16)


def test_healing_respells_the_end_of_the_prompt(model):
    # after "a" comes "://", which the prompt "a:" has cut in two; after ":" alone comes "w"
    a, colon, colons, w = range(F, F + 4)
    llm = model(["a", ":", "://", "w"], markov.chain((a, colons), (colon, w), (colons, w), (w, markov.EOS)))
    answer, _ = both(llm, "a:", **GREEDY)
    assert (answer.text, answer.ids) == ("//w", [colons, w])
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 2)
    assert both(llm, "a:", token_healing=False, **GREEDY)[0].text == "w"
    assert both(llm, b"a:", **GREEDY)[0].text == "//w"
    assert both(llm, [markov.BOS, a, colon], **GREEDY)[0].text == "w", "ids are not healed"


def test_healing_that_changes_nothing_costs_no_tokens(model):
    a, colon, colons, w = range(F, F + 4)
    llm = model(["a", ":", "://", "w"], markov.chain((a, colon), (colon, w), (w, w)))
    healed, plain = (both(llm, "a:", max_tokens=3, token_healing=on, **GREEDY)[0] for on in (True, False))
    assert healed.ids == plain.ids == [w, w, w]
    assert healed.usage.prompt_tokens == plain.usage.prompt_tokens == 3


def test_healing_within_a_character(model):
    a, e = F, "é".encode()
    llm = model(["a", "é!"], markov.chain((a, F + 1), (F + 1, markov.EOS)))
    assert both(llm, b"a" + e[:1], **GREEDY)[0].ids == [F + 1]
    assert llm.generate("aé", **GREEDY).text == "!"


def test_healing_takes_no_other_parts_of_the_prompts_end(model):
    # after "a" a blank is likeliest, but it stands for all that could follow one, and the prompt says "▁the"
    a, the, then, blank = range(F, F + 4)
    table = markov.chain((a, blank), (blank, then), (the, a))
    llm = model(["a", "▁the", "▁then", "▁", "▁t", "▁th", "th", "the"], lambda size: table(size) + np.eye(size)[the])
    answer, _ = both(llm, "a the", max_tokens=1, **GREEDY)
    assert (answer.text, answer.ids, answer.usage.prompt_tokens) == ("a", [a], 3)


def test_healing_over_several_tokens(model):
    # the prompt's "abc" is the tokens ab, c; the model may keep both, go beyond with the second, or with one for both
    x, a, b, c, ab, abcd, cd = range(F, F + 7)
    for steps, ids, text in (
        ([(x, ab), (ab, c), (c, x)], [x], "x"),
        ([(x, ab), (ab, cd)], [cd], "d"),
        ([(x, abcd)], [abcd], "d"),
    ):
        llm = model(["x", "a", "b", "c", "ab", "abcd", "cd"], markov.chain(*steps))
        assert llm.tokenize("xabc") == [markov.BOS, x, ab, c]
        answer, _ = both(llm, "xabc", max_tokens=1, **GREEDY)
        assert (answer.ids, answer.text, answer.usage.completion_tokens) == (ids, text, 1)


def test_frequency_penalty_counts_generated_tokens_only(model):
    def table(size):
        logits = markov.chain()(size) - 40
        logits[:, F : F + 3] = [2.0, 1.5, 0.0]
        return logits

    llm = model(["a", "b", "c"], table)
    assert llm.generate("a", max_tokens=4, frequency_penalty=1, **GREEDY).text == "abab"
    assert llm.generate("a", max_tokens=4, presence_penalty=1, **GREEDY).text == "abaa"
    assert llm.generate("a", max_tokens=4, **GREEDY).text == "aaaa"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_end_one_request_only(model, temperature):
    llm = model(["a", "b", "c"], markov.chain((F, F + 1), (F + 2, F + 2)), broken=[F + 1])
    for _ in range(6):  # more often than there are sequences
        with pytest.raises(BackendError, match="non-finite logits"):
            llm.generate("a", temperature=temperature, top_k=1)
    assert llm.generate("c", max_tokens=3, **GREEDY).text == "ccc"


def test_closing_a_stream_early_frees_and_keeps(story):
    for _ in range(6):
        chunks = story.stream("go", **GREEDY)
        assert next(chunks).text == " al"
        assert next(chunks).text == "pha"
        chunks.close()
    answer = story.generate([markov.BOS, *range(F, F + 4)], **GREEDY)
    assert (answer.text, answer.usage.cached_tokens) == ("ta gamma", 3)


def test_last_chunk_leaves_the_sequence_to_others(story):
    streams = [story.stream("go", max_tokens=1, **GREEDY) for _ in range(6)]  # more than there are sequences
    assert [next(chunks).finish_reason for chunks in streams] == ["length"] * 6


def test_timings_leave_out_what_the_caller_takes(endless, monkeypatch):
    from edgeinfer import generate

    clock = iter(range(10**6))
    monkeypatch.setattr(generate.time, "perf_counter", lambda: float(next(clock)))
    chunks = list(endless().stream("a", max_tokens=5, **GREEDY))
    timings = chunks[-1].timings
    # the clock ticks once a look: start, begin and end of the prompt, first token, begin and end of each of 4 tokens
    assert (timings.prompt_s, timings.first_token_s, timings.token_s) == (1, 3, 1)
    assert (timings.prompt_tokens_per_s, timings.tokens_per_s) == (2, 1)
