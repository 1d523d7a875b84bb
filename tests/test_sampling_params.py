"""What is said of sampling: checked, whoever says it."""

import math
import pickle

import numpy as np
import pytest

from edgeinfer.errors import RequestError
from edgeinfer.sampling import Sampler
from edgeinfer.sampling_params import SamplingParams, check_bias, stated


def test_logit_bias_beyond_the_vocabulary_is_named() -> None:
    params = SamplingParams(logit_bias={"999999999": 1})
    for refuses in (lambda: check_bias(params, 4), lambda: Sampler(params, 4)):
        with pytest.raises(RequestError, match="999999999"):
            refuses()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", "0.8"),
        ("temperature", None),
        ("top_k", 1.5),
        ("top_k", -2),
        ("top_k", True),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.01),
        ("repeat_penalty", 0),
        ("repeat_penalty", math.inf),
        ("repeat_last_n", -2),
        ("frequency_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("seed", -1),
        ("seed", 0.5),
        ("seed", 1 << 64),
        ("logit_bias", [1]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {-1: 1}),
        ("logit_bias", {1.5: 1}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: math.inf}),
        ("logit_bias", {1: "x"}),
    ],
)
def test_a_value_out_of_bounds_is_named(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=name) as caught:
        SamplingParams(**{name: value})
    assert "\n" not in str(caught.value)
    shown = value if not isinstance(value, (list, dict)) else next(iter(value)) if name == "logit_bias" else value
    assert str(shown) in str(caught.value) or "list" in str(caught.value)


def test_numpy_numbers_are_numbers() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5), top_k=np.int64(3), seed=np.uint64(7), logit_bias={np.int32(2): 1}
    )
    assert (params.temperature, params.top_k, params.seed, params.logit_bias) == (0.5, 3, 7, {2: 1.0})
    assert pickle.loads(pickle.dumps(params)) == params


def test_what_a_file_says_of_sampling() -> None:
    keys = {"temp": 0.5, "top_k": 20, "top_p": 0.25, "min_p": 0, "penalty_repeat": 1.5, "penalty_last_n": -1}
    found = stated({f"general.sampling.{key}": value for key, value in keys.items()} | {"general.name": "x"})
    want = {"temperature": 0.5, "top_k": 20, "top_p": 0.25, "min_p": 0.0, "repeat_penalty": 1.5, "repeat_last_n": -1}
    assert found == want and SamplingParams(**found).top_k == 20
    assert stated({}) == {}


@pytest.mark.parametrize(("key", "value"), [("temp", -1.0), ("top_k", 2.5), ("top_p", "x"), ("min_p", np.array([0.5]))])
def test_what_a_file_says_out_of_bounds_is_ignored_with_a_warning(key: str, value: object) -> None:
    with pytest.warns(UserWarning, match=f"general.sampling.{key} is ignored"):
        assert stated({f"general.sampling.{key}": value}) == {}
