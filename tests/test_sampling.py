"""Sampling, by hand-computed cases and by what llama.cpp's samplers leave of the kit's logits."""

import collections
import itertools
import json
import math
import pathlib

import numpy as np
import pytest

from edgeinfer.errors import BackendError, RequestError
from edgeinfer.sampling import (
    GREEDY,
    Sampler,
    counted,
    draw,
    draw_few,
    largest,
    nucleus,
    repeated,
    temper,
)
from edgeinfer.sampling_params import SamplingParams

# the logits after any token of the fixture probs.gguf: a b c d
PROBS = np.log(np.array([0.5, 0.3, 0.15, 0.05], dtype=np.float32))


def generated(count: int, prompt: str = "d", **params: object) -> str:
    """Letters that follow when every position has PROBS."""
    sampler = Sampler(SamplingParams(**params), len(PROBS))
    sampler.accept_prompt("abcd".index(letter) for letter in prompt)
    text = ""
    for _ in range(count):
        id = sampler.pick(PROBS)
        sampler.accept(id)
        text += "abcd"[id]
    return text


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-9, GREEDY])
def test_temperature_0_takes_the_likeliest(temperature: float) -> None:
    assert generated(6, temperature=temperature) == "aaaaaa"


def test_openai_penalties_count_generated_tokens_only() -> None:
    assert generated(6, temperature=0, frequency_penalty=1) == "abacba"
    assert generated(6, temperature=0, presence_penalty=1) == "abaaaa"
    assert generated(6, prompt="aaaa", temperature=0, frequency_penalty=1) == "abacba"
    assert generated(6, prompt="aaaa", temperature=0, presence_penalty=1) == "abaaaa"


def test_openai_penalties_have_no_window() -> None:
    # a falls below b after one token and would come back if a window of 1 forgot it
    assert generated(3, temperature=0, presence_penalty=0.6, repeat_last_n=1) == "aba"
    assert generated(3, temperature=0, frequency_penalty=5, repeat_last_n=1) == "abc"


def test_repeat_penalty_sees_the_prompt_within_its_window() -> None:
    # log 0.5 * 2 = -1.39 is below log 0.3 = -1.20
    assert generated(1, prompt="a", temperature=0, repeat_penalty=2) == "b"
    assert generated(1, prompt="ab", temperature=0, repeat_penalty=2, repeat_last_n=1) == "a"
    assert generated(1, prompt="ab", temperature=0, repeat_penalty=4, repeat_last_n=2) == "c"
    assert generated(1, prompt="a", temperature=0, repeat_penalty=2, repeat_last_n=0) == "a"
    assert generated(1, prompt="a" + "d" * 99, temperature=0, repeat_penalty=2, repeat_last_n=-1) == "b"


@pytest.mark.parametrize("off", [0, -1])
def test_top_k_off_draws_from_all(off: int) -> None:
    text = generated(2000, temperature=1, top_p=1, top_k=off, min_p=0, seed=1)
    shares = {letter: count / 2000 for letter, count in collections.Counter(text).items()}
    # five standard deviations of the largest share
    assert shares == pytest.approx({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}, abs=0.056)


def test_top_k_top_p_and_min_p_leave_out_the_unlikely() -> None:
    assert set(generated(200, temperature=1, top_p=1, min_p=0, top_k=2, seed=1)) == set("ab")
    assert set(generated(200, temperature=1, top_p=0.81, min_p=0, seed=1)) == set("abc")
    assert set(generated(200, temperature=1, top_p=1, min_p=0.2, seed=1)) == set("abc")
    assert set(generated(200, temperature=1, top_p=0, min_p=0, seed=1)) == set("a")


def test_a_seed_repeats_and_none_does_not() -> None:
    settings = {"temperature": 1.5, "top_p": 1, "min_p": 0}
    assert generated(100, seed=5, **settings) == generated(100, seed=5, **settings)
    assert generated(100, seed=5, **settings) != generated(100, seed=6, **settings)
    assert generated(100, **settings) != generated(100, **settings)


def test_logits_are_not_changed() -> None:
    logits = PROBS.copy()
    logits.flags.writeable = False
    sampler = Sampler(SamplingParams(repeat_penalty=2, frequency_penalty=1, logit_bias={0: 1}), 4)
    sampler.accept(0)
    sampler.pick(logits)
    assert np.array_equal(logits, PROBS)


def test_greedy_takes_the_lowest_of_equal_ids() -> None:
    logits = np.array([0, 3, 3, 1], dtype=np.float32)
    assert Sampler(SamplingParams(temperature=0), 4).pick(logits) == 1
    assert Sampler(SamplingParams(temperature=0), 4).pick(logits, np.array([0, 2, 3])) == 2


def test_only_allowed_tokens_are_picked() -> None:
    for params in (SamplingParams(temperature=0), SamplingParams(seed=1), SamplingParams(seed=1, top_k=1)):
        assert Sampler(params, 4).pick(PROBS, np.array([2])) == 2
    sampler = Sampler(SamplingParams(temperature=5, top_p=1, min_p=0, seed=1), 4)
    assert {sampler.pick(PROBS, np.array([1, 3])) for _ in range(100)} == {1, 3}


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused_and_the_sampler_goes_on(temperature: float, bad: float) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, seed=1), 4)
    with pytest.raises(BackendError, match="non-finite logits.* token 2,"):
        sampler.pick(np.array([1, 2, bad, -math.inf], dtype=np.float32), np.array([0]))
    assert sampler.pick(np.array([-math.inf, 1, -math.inf, -math.inf], dtype=np.float32)) == 1


def test_all_banned_is_an_error() -> None:
    with pytest.raises(BackendError, match="non-finite"):
        Sampler(SamplingParams(), 2).pick(np.full(2, -math.inf, np.float32))
    with pytest.raises(RequestError, match="logit_bias bans all"):
        Sampler(SamplingParams(logit_bias={0: -math.inf, 1: -math.inf}), 2).pick(np.zeros(2, np.float32))


def test_logit_bias_bans_and_prefers() -> None:
    assert "a" not in generated(200, temperature=1, logit_bias={0: -math.inf}, seed=1)
    assert generated(3, temperature=0, logit_bias={"3": 100}) == "ddd"
    assert generated(3, temperature=0, logit_bias={}) == generated(3, temperature=0, logit_bias=None) == "aaa"


@pytest.mark.parametrize("size", [1, 50, 4095, 4096, 4097, 9001, 70_000])
@pytest.mark.parametrize("kind", ["normal", "ties", "equal", "banned"])
def test_largest_is_a_stable_sort_cut_off(size: int, kind: str) -> None:
    logits = np.random.default_rng(size).normal(0, 3, size).astype(np.float32)
    if kind == "ties":
        logits = np.round(logits)
    elif kind == "equal":
        logits[:] = -1.5
    elif kind == "banned":
        logits[3:] = -np.inf
    order = np.argsort(-logits, kind="stable")
    for n in (1, 2, 40, 300, 5000, size, size + 1):
        assert np.array_equal(largest(logits, n), order[:n]), n


def test_draw_follows_the_running_sum() -> None:
    logits = np.log(np.array([0.25, 0.5, 0.25], dtype=np.float32))
    assert [draw(logits, number) for number in (0, 0.24, 0.26, 0.74, 0.76, 1 - 2**-53)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5000])
def test_draw_never_takes_a_banned_token(size: int) -> None:
    logits = np.full(size, -np.inf, dtype=np.float32)
    open = np.unique(np.random.default_rng(size).integers(0, size, 5))
    logits[open] = np.linspace(-1, 1, len(open), dtype=np.float32)
    chosen = {draw(logits, number) for number in [*np.linspace(0, 0.9999, 101), 1 - 2**-53]}
    assert chosen == set(open.tolist())


def test_draw_over_many_blocks_has_the_right_shares() -> None:
    logits = np.random.default_rng(3).normal(0, 1, 3000).astype(np.float32)
    p = np.exp(logits.astype(np.float64))
    sums = np.cumsum(p / p.sum())
    numbers = np.random.default_rng(4).random(300)
    for number in numbers[np.abs(sums - numbers[:, None]).min(axis=1) > 1e-6]:
        assert draw(logits, number) == np.searchsorted(sums, number, side="right")


def test_extreme_logits_do_not_overflow() -> None:
    logits = np.array([-3e38, 3e38, 0], dtype=np.float32)
    for temperature in (2e-6, 1.0, 100.0):
        assert Sampler(SamplingParams(temperature=temperature, min_p=0), 3).pick(logits) == 1


def test_nucleus_is_top_p_and_then_min_p() -> None:
    logits = np.random.default_rng(5).normal(0, 2, 5000).astype(np.float32)
    for p, share in ((0.5, 0.05), (0.95, 0.3), (0.99, 0.001), (0.3, 0.0001)):
        first = nucleus(logits, p, 0)
        kept = first[nucleus(logits[first], 1, share)]
        assert set(nucleus(logits, p, share)) == set(kept)


def test_a_few_are_drawn_as_many_are() -> None:
    rng = np.random.default_rng(6)
    for p, share, temperature in itertools.product((1.0, 0.95, 0.3, 0.0), (0.0, 0.05, 1.0), (0.1, 0.8, 100.0)):
        for size in (1, 2, 40, 64):
            logits = -np.sort(-rng.normal(0, 3, size).astype(np.float32))
            kept = nucleus(logits, p, share)
            for number in (0.0, 1 - 2**-53, *rng.random(20).tolist()):
                want = kept[draw(temper(logits[kept], temperature), number)]
                assert draw_few(logits.tolist(), temperature, p, share, number) == want


def test_a_few_of_the_same_likelihood() -> None:
    assert [draw_few([1.0, 1.0, 1.0], 1.0, 0.5, 0.05, number) for number in (0, 0.49, 0.51, 0.99)] == [0, 0, 1, 1]
    assert draw_few([1.0, -math.inf], 1e-5, 1.0, 0.0, 1 - 2**-53) == 0


SCOPE = {"greedy", "top_k", "top_p", "min_p", "temp", "penalties", "logit_bias"}


def in_scope(case: dict) -> bool:
    """Samplers there are; typical with p 1 leaves all.  There is no min_keep other than 1, which 0 means too."""
    return all(
        (name in SCOPE or name == "typical" and setting["p"] == 1) and setting.get("min_keep", 1) <= 1
        for name, setting in case["chain"]
    )


def applied(case: dict, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids and logits of the candidates that the case's chain leaves."""
    ids, logits = np.arange(len(logits)), logits.copy()
    for name, setting in case["chain"]:
        places = np.arange(len(ids))
        if name == "top_k" and setting["k"] > 0:
            places = largest(logits, setting["k"])
        elif name == "top_p":
            places = nucleus(logits, setting["p"], 0)
        elif name == "min_p":
            places = nucleus(logits, 1, setting["p"])
        elif name == "temp" and setting["t"] <= GREEDY:
            places = places[[logits.argmax()]]
        elif name == "temp":
            logits = temper(logits, setting["t"])
        elif name == "logit_bias":
            for id, amount in setting["bias"]:
                logits[id] += np.float32(amount)
        elif name == "penalties":
            window = case["history"][-setting["last_n"] :] if setting["last_n"] else []
            seen, counts = np.unique(np.array(window, dtype=np.int64), return_counts=True)
            lowered = repeated(logits[seen], setting["repeat"])
            logits[seen] = counted(lowered, counts.astype(np.float32), setting["frequency"], setting["presence"])
        ids, logits = ids[places], logits[places]
    kept = logits > -np.inf
    return ids[kept], logits[kept]


def check_candidates(case: dict, ids: np.ndarray, logits: np.ndarray, wanted: np.ndarray, p: np.ndarray) -> None:
    """ids, logits: what is left; wanted, p: the ids (or some of them) and probabilities that llama.cpp left."""
    assert len(ids) in (case["finite"], case.get("finite_in_float64")), (case, len(ids))
    weights = np.exp(logits.astype(np.float64) - logits.max())
    mine = dict(zip(ids.tolist(), weights / weights.sum(), strict=True))
    both = [id for id in wanted.tolist() if id in mine]
    theirs = dict(zip(wanted.tolist(), p.tolist(), strict=True))
    assert np.allclose([mine[id] for id in both], [theirs[id] for id in both], rtol=1e-4, atol=1e-9), case
    if len(ids) == case["finite"] and not case.get("ties"):
        assert len(both) == len(wanted) and (case["subset"] or len(both) == len(ids)), case
    elif len(ids) == case["finite"] and not case["subset"]:  # which of equal ones stay is not defined
        assert np.allclose(sorted(mine.values()), sorted(p), rtol=1e-4, atol=1e-9), case


def test_candidates_and_probabilities_are_llama_cpps(shared: pathlib.Path) -> None:
    data = np.load(shared / "kit" / "sampling" / "data.npz")
    vectors = {name.removeprefix("logits."): data[name] for name in data.files if name.startswith("logits.")}
    all_ids, all_p, all_logits = data["ids"], data["p"], data["logit"]
    cases = json.loads((shared / "kit" / "sampling" / "cases.json").read_text())["cases"]
    cases = [case for case in cases if in_scope(case)]
    assert len(cases) == 604  # of 940
    for case in cases:
        vector = vectors[case["vector"]]
        if "selected_id" in case:
            assert Sampler(SamplingParams(temperature=0), len(vector)).pick(vector) == case["selected_id"], case
            continue
        ids, logits = applied(case, vector)
        part = slice(case["offset"], case["offset"] + case["length"])
        check_candidates(case, ids, logits, all_ids[part], all_p[part])
        if [name for name, _ in case["chain"]] in (["penalties"], ["logit_bias"]):
            got = logits[np.searchsorted(ids, all_ids[part])]
            start = case.get("logit_offset")
            want = vector[all_ids[part]] if start is None else all_logits[start : start + case["length"]]
            assert np.allclose(got, want, rtol=1e-6, atol=1e-6), case
