"""The arguments of an LLM and of its requests, checked without a model."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from edgeinfer import memory
from edgeinfer.errors import RequestError
from edgeinfer.sampling_params import SamplingParams
from edgeinfer.weights import check_weights

BACKENDS = ("cpu", "reference")
MAX_THREADS = 256
MAX_BATCH = 65_536
OPTIONS = ("max_tokens", "stop", "ignore_eos", "token_healing")  # beside the fields of SamplingParams

Stops = str | Sequence[str] | None


def checked(
    max_tokens: int = 256, stop: Stops = (), seed: int | None = None, ignore_eos: bool = False, **sampling: Any
) -> dict[str, Any]:
    """The fields of a Request for these arguments of `LLM.generate`.  RequestError for what no model could take."""
    known = [field.name for field in fields(SamplingParams)]
    for name in sampling:
        if name not in known:
            close = difflib.get_close_matches(name, {*known, *OPTIONS} - {name}, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise RequestError(f"unknown option {name}; {hint}")
    return {
        "max_tokens": _integer("max_tokens", max_tokens, 0),
        "stops": _stops(stop),
        "params": SamplingParams(**sampling, seed=seed),
        "ignore_eos": ignore_eos,
    }


def check_options(
    n_ctx: int | None = None,
    n_threads: int | None = None,
    kv_type: str = "f16",
    backend: str = "cpu",
    n_batch: int = 512,
    weights: str = "mmap",
) -> None:
    """RequestError for arguments of `LLM` that are impossible with every model."""
    check_weights(weights)
    if backend not in BACKENDS:
        raise RequestError(f"backend is {backend!r}; must be one of {', '.join(BACKENDS)}")
    if backend == "cpu":
        memory.check_kv_type(kv_type)
    _integer("n_batch", n_batch, 1, MAX_BATCH)
    for name, value, most in (("n_ctx", n_ctx, None), ("n_threads", n_threads, MAX_THREADS)):
        if value is not None:
            _integer(name, value, 1, most)


def _stops(stop: Stops) -> tuple[str, ...]:
    given: object = () if stop is None else stop
    stops = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not all(isinstance(text, str) and text for text in stops):
        raise RequestError("stop must be a string or several, none of them empty")
    return stops


def _integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """RequestError with the bounds where the value is not an integer between them."""
    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise RequestError(f"{name} is {str(value)[:50]!r}; must be an integer, {bounds}")
    if value < least or (most is not None and value > most):
        raise RequestError(f"{name} is {value}; must be {bounds}")
    return int(value)
