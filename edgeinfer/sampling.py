"""Sampling: from the logits of one position to the next token.

The steps and their order are llama.cpp's: logit bias, penalties, top-k, top-p, min-p, temperature, draw.  Each is a
pure function; `Sampler` holds what lasts over a request: the history and the random numbers.

Penalties: the repeat penalty looks at the last `repeat_last_n` tokens, the prompt's included, as llama.cpp does;
frequency and presence penalties count all tokens generated so far and none of the prompt's, as OpenAI's do.

Speed: a vocabulary can have 262,144 tokens, so nothing sorts it: `largest` first finds a bound that few logits reach.
"""

import bisect
import collections
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable

import numpy as np

from edgeinfer.errors import BackendError, RequestError
from edgeinfer.sampling_params import SamplingParams, check_bias

GREEDY = 1e-6  # temperatures up to this take the most likely token
MOST_TOP = 64  # a choice among so many of the largest logits needs no others
_BLOCK = 1024

Step = Callable[[np.ndarray], np.ndarray]  # logits -> places that stay


def repeated(logits: np.ndarray, penalty: float) -> np.ndarray:
    """Logits f32[n] of tokens seen before, made less likely (penalty > 1)."""
    factor = np.float32(penalty)
    lowered: np.ndarray = np.where(logits > 0, logits / factor, logits * factor)
    return lowered


def counted(logits: np.ndarray, counts: np.ndarray, frequency: float, presence: float) -> np.ndarray:
    """Logits f32[n] of tokens seen counts f32[n] times, lowered for each time and once for all."""
    lowered: np.ndarray = logits - (counts * np.float32(frequency) + np.float32(presence))
    return lowered


def largest(logits: np.ndarray, n: int) -> np.ndarray:
    """Places i64[<= n] of the n largest of logits f32[size], falling; of equal ones the first."""
    if n < len(logits):
        # n of the columns' maxima reach the bound, so at least n of the logits do, and hardly more
        columns = max(2048, 16 * n)
        rows = len(logits) // columns
        heads = logits[: rows * columns].reshape(rows, columns).max(axis=0) if rows > 1 else logits
        bound = np.partition(heads, len(heads) - n)[len(heads) - n]
        places = np.flatnonzero(logits >= bound)
    else:
        places = np.arange(len(logits))
    found: np.ndarray = places[_falling(logits[places])[:n]]
    return found


def _falling(logits: np.ndarray) -> np.ndarray:
    """Places of logits f32[n] in falling order, equal ones as they come: five times as fast as a stable argsort."""
    bits = (logits + np.float32(0)).view(np.int32)  # + 0 makes -0 the same as 0
    bits ^= (bits >> 31) & 0x7FFFFFFF  # integers in the order of the floats
    keys = -bits.astype(np.int64) << 32 | np.arange(len(bits))
    places: np.ndarray = np.sort(keys) & 0xFFFFFFFF
    return places


def nucleus(logits: np.ndarray, p: float, share: float) -> np.ndarray:
    """Places that top-p and min-p leave: the fewest largest logits whose probabilities sum to p, and of these the ones
    at least `share` times as likely as the likeliest.  logits f32[n].

    Both keep a beginning of the falling order, and neither moves the other's yardstick.  So min-p, which needs no
    order, can go first, and few are left to be sorted."""
    places = np.arange(len(logits))
    if share > 0:
        places = np.flatnonzero(logits >= logits.max() + np.float32(math.log(share)))
    if p < 1:
        weights = _weights(logits)
        places = places[_heaviest(weights[places], p * weights.sum(dtype=np.float64))]
    return places


def _heaviest(weights: np.ndarray, wanted: float) -> np.ndarray:
    """Places of the fewest largest of weights f32[n] that sum to what is wanted; all where they do not.  Falling."""
    n = 64
    while True:
        places = largest(weights, n)
        enough = int(np.searchsorted(np.cumsum(weights[places], dtype=np.float64), wanted)) + 1
        if enough <= len(places) or len(places) == len(weights):
            return places[:enough]
        n *= 16


def temper(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Logits f32[n] divided by the temperature, counted from the largest, so that none overflows upwards."""
    with np.errstate(over="ignore"):
        tempered: np.ndarray = (logits - logits.max()) / np.float32(temperature)
    return tempered


def draw(logits: np.ndarray, number: float) -> int:
    """The place that a uniform random number in [0, 1) chooses by softmax of logits f32[n].

    Sums of blocks first, then those within one block: a running sum over a whole vocabulary is slow."""
    weights = _weights(logits)
    blocks = np.cumsum(np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK), dtype=np.float64))
    wanted = number * blocks[-1]
    block = int(np.searchsorted(blocks, wanted, side="right"))
    sums = np.cumsum(weights[block * _BLOCK : (block + 1) * _BLOCK], dtype=np.float64)
    if block:
        wanted -= blocks[block - 1]
    last = np.searchsorted(sums, sums[-1])  # the two sums of a block may differ in rounding
    return block * _BLOCK + int(min(np.searchsorted(sums, wanted, side="right"), last))


def draw_few(logits: list[float], temperature: float, p: float, share: float, number: float) -> int:
    """What `nucleus`, `temper` and `draw` come to for a few logits in falling order: the place that is chosen.

    To call numpy some thirty times takes longer, as each step of a model drives its code out of the caches."""
    highest, count = logits[0], len(logits)
    if p < 1:
        sums = list(itertools.accumulate(math.exp(logit - highest) for logit in logits))
        count = bisect.bisect_left(sums, p * sums[-1]) + 1
    if share > 0:
        bound = highest + math.log(share)
        count = next((place for place in range(1, count) if logits[place] < bound), count)
    sums = list(itertools.accumulate(math.exp((logit - highest) / temperature) for logit in logits[:count]))
    return min(bisect.bisect_right(sums, number * sums[-1]), bisect.bisect_left(sums, sums[-1]))


def _check_finite(best: int, logit: float) -> None:
    if not math.isfinite(logit):
        raise BackendError(f"non-finite logits: the largest, of token {best}, is {logit}")


def _weights(logits: np.ndarray) -> np.ndarray:
    """Probabilities but for a common factor, f32[n]; the largest is 1."""
    with np.errstate(over="ignore"):
        weights: np.ndarray = np.exp(logits - logits.max())
    return weights


class Sampler:
    """Chooses the tokens of one request.  Not for several threads at once."""

    def __init__(self, params: SamplingParams, n_vocab: int) -> None:
        """RequestError where logit_bias names a token beyond the vocabulary."""
        check_bias(params, n_vocab)
        self._params = params
        self._random = random.Random(params.seed)
        self._recent = collections.deque[int](maxlen=None if params.repeat_last_n < 0 else params.repeat_last_n)
        self._counts = collections.Counter[int]()
        bias = params.logit_bias or {}
        self._biased = np.array(list(bias), dtype=np.int64)
        self._bias = np.array(list(bias.values()), dtype=np.float32)
        self._steps: list[Step] = []
        if params.top_k > 0:
            self._steps.append(functools.partial(largest, n=params.top_k))
        if params.top_p < 1 or params.min_p > 0:
            self._steps.append(functools.partial(nucleus, p=params.top_p, share=params.min_p))

    @property
    def top(self) -> int:
        """How many of the largest logits decide: a few, or 0 where all do."""
        p = self._params
        if p.logit_bias or p.repeat_penalty != 1 or p.frequency_penalty != 0 or p.presence_penalty != 0:
            return 0
        if p.temperature <= GREEDY:
            return 1
        return p.top_k if 0 < p.top_k <= MOST_TOP else 0

    def accept_prompt(self, ids: Iterable[int]) -> None:
        """Put the prompt's tokens into the history of the repeat penalty."""
        self._recent.extend(ids)

    def accept(self, id: int) -> None:
        """Put a generated token into the history."""
        self._recent.append(id)
        self._counts[id] += 1

    def pick(self, logits: np.ndarray, allowed: np.ndarray | None = None) -> int:
        """The next token's id.  logits f32[vocab], left as they are; allowed: rising ids i64[n], None = all.

        BackendError where logits are not finite (-inf is: a banned token); RequestError where logit_bias bans all."""
        best = int(logits.argmax())  # the first NaN, if there is one
        _check_finite(best, logits[best])
        logits = self._adjusted(logits)
        places = allowed
        if places is not None:
            logits = logits[places]
        best = int(logits.argmax())
        if logits[best] == -math.inf:
            raise RequestError("no token may come next: logit_bias bans all that are possible")
        if self._params.temperature > GREEDY:
            best = self._drawn(logits)
        return best if places is None else int(places[best])

    def pick_top(self, ids: list[int], logits: list[float]) -> int:
        """As `pick`, from the `top` largest logits alone, which fall."""
        _check_finite(ids[0], logits[0])
        if self._params.temperature <= GREEDY:
            return ids[0]
        return ids[self._drawn_few(logits)]

    def _drawn(self, logits: np.ndarray) -> int:
        """The place that the next random number chooses."""
        if 0 < self._params.top_k <= MOST_TOP:
            kept = largest(logits, self._params.top_k)
            return int(kept[self._drawn_few(logits[kept].tolist())])
        places = None
        for step in self._steps:
            kept = step(logits)
            logits, places = logits[kept], kept if places is None else places[kept]
        place = draw(temper(logits, self._params.temperature), self._random.random())
        return place if places is None else int(places[place])

    def _drawn_few(self, logits: list[float]) -> int:
        """The place that it chooses among these, which fall."""
        p = self._params
        return draw_few(logits, p.temperature, p.top_p, p.min_p, self._random.random())

    def _adjusted(self, logits: np.ndarray) -> np.ndarray:
        """The logits with bias and penalties, copied if that changes any."""
        params = self._params
        repeats = params.repeat_penalty != 1 and len(self._recent) > 0
        counts = (params.frequency_penalty != 0 or params.presence_penalty != 0) and len(self._counts) > 0
        if not (len(self._biased) or repeats or counts):
            return logits
        logits = logits.copy()
        logits[self._biased] += self._bias
        if repeats:
            ids = np.array(list(set(self._recent)))
            logits[ids] = repeated(logits[ids], params.repeat_penalty)
        if counts:
            ids = np.array(list(self._counts))
            times = np.array(list(self._counts.values()), dtype=np.float32)
            logits[ids] = counted(logits[ids], times, params.frequency_penalty, params.presence_penalty)
        return logits
