"""How tokens are to be chosen: what a caller or a file says, checked.  What it means is in sampling.py."""

import math
import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from edgeinfer.errors import RequestError

# field -> lowest and highest value
_INTEGERS = {"top_k": (-1, 1 << 31), "repeat_last_n": (-1, 1 << 31)}
_REALS = {
    "temperature": (0, 100),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0.01, 100),
    "frequency_penalty": (-100, 100),
    "presence_penalty": (-100, 100),
}
# field -> its key in files, after general.sampling.
_FILE_KEYS: dict[str, str] = {
    **{"temperature": "temp", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"},
    **{"repeat_penalty": "penalty_repeat", "repeat_last_n": "penalty_last_n"},
}
_SEEDS = (0, (1 << 64) - 1)
_HIGHEST_BIAS = 1e6


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen.  RequestError names the field, its value and its bounds.

    temperature: 0 to 100, 0 = the most likely token always; top_k: 0 or -1 = off; top_p: 1 = off; min_p: 0 = off;
    repeat_penalty: 1 = off, over the last repeat_last_n tokens (-1 = all);
    frequency_penalty, presence_penalty: -100 to 100, 0 = off;
    logit_bias: token id (or its decimal text, as JSON has it) -> what is added to its logit, -inf bans it;
    seed: None = different each time.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name in _INTEGERS:
                value = _number(name, value, numbers.Integral, *_INTEGERS[name])
            elif name in _REALS:
                value = _number(name, value, numbers.Real, *_REALS[name])
            elif name == "seed" and value is not None:
                value = _number(name, value, numbers.Integral, *_SEEDS)
            elif name == "logit_bias":
                value = _bias(value)
            object.__setattr__(self, name, value)


def _number(name: str, value: object, kind: type, low: float, high: float) -> float:
    """The value as int or float.  RequestError where it is of another kind, NaN or out of bounds."""
    number: Any = value
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= number <= high:
        noun = "an integer" if kind is numbers.Integral else "a number"
        raise RequestError(f"{name} is {str(value)[:50]!r}; it must be {noun} from {low} to {high}")
    return int(number) if kind is numbers.Integral else float(number)


def _bias(value: object) -> dict[int, float] | None:
    if value is not None and not isinstance(value, Mapping):
        raise RequestError(f"logit_bias is {type(value).__name__}; it must be a mapping from token ids to numbers")
    bias = {}
    for key, amount in (value or {}).items():
        try:
            id = int(key) if isinstance(key, (str, numbers.Integral)) and not isinstance(key, bool) else -1
        except ValueError:
            id = -1
        if id < 0:
            raise RequestError(f"logit_bias has the key {str(key)[:50]!r}; keys must be token ids")
        bias[id] = _number(f"logit_bias[{id}]", amount, numbers.Real, -math.inf, _HIGHEST_BIAS)
    return bias or None


def check_bias(params: SamplingParams, n_vocab: int) -> None:
    """RequestError naming a token id of logit_bias that the vocabulary does not have."""
    for id in params.logit_bias or ():
        if id >= n_vocab:
            raise RequestError(f"logit_bias has the token id {id}; this model's ids end at {n_vocab - 1}")


def stated(metadata: Mapping[str, object]) -> dict[str, Any]:
    """What a GGUF file says of sampling, as fields of SamplingParams; a warning instead of a value out of bounds."""
    found: dict[str, Any] = {}
    for name, key in _FILE_KEYS.items():
        value: Any = metadata.get(f"general.sampling.{key}")
        try:
            found |= {} if value is None else {name: getattr(SamplingParams(**{name: value}), name)}
        except RequestError as error:
            warnings.warn(f"general.sampling.{key} is ignored: {error}", stacklevel=2)
    return found
