"""The reference backend: each op against numbers worked out by hand, and the bookkeeping of sequences."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from edgeinfer import plan
from edgeinfer.backend import Chunk
from edgeinfer.errors import BackendError, ContextFullError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.plan import Op, Value
from edgeinfer.reference import ReferenceBackend
from edgeinfer.reference_ops import OPS
from edgeinfer.reference_ops.step import Held, Step, Weights
from edgeinfer.rope import Rope
from edgeinfer.verbs.attention import Attention
from edgeinfer.verbs.experts import Experts
from edgeinfer.verbs.recurrence import Recurrence
from edgeinfer.verbs.rows import Rows
from tests import tiny


@dataclasses.dataclass
class Given:
    """A tensor of F32."""

    values: np.ndarray
    type: GgmlType = GgmlType.F32

    @property
    def data(self) -> np.ndarray:
        return self.float32().view(np.uint8)

    def float32(self) -> np.ndarray:
        return np.array(self.values, np.float32)


def run(kind: str, *ins: Any, weights=(), width=None, chunks=((1, 1),), **attrs: Any) -> list[list[float]]:
    """One op on `ins`.  `chunks`: (tokens, outputs) of each, in sequences of their own that hold nothing."""
    tensors = {str(i): Given(w) for i, w in enumerate(weights)}
    step = Step(
        Weights(tensors),
        [Chunk(i, range(tokens), n) for i, (tokens, n) in enumerate(chunks)],
        [Held() for _ in chunks],
    )
    arrays = [np.array(x, np.float32) for x in ins]
    width = arrays[0].shape[1] if width is None else width
    op = Op(kind, Value(9, width), tuple(Value(i, x.shape[1]) for i, x in enumerate(arrays)), tuple(tensors), attrs)
    return OPS[kind](op, step, *arrays).tolist()


def test_every_verb_has_an_op():
    families = (Rows, Attention, Experts, Recurrence)
    verbs = {name for family in families for name in vars(family) if not name.startswith("_")}
    assert verbs == set(OPS)


def test_embed_takes_rows_times_scale():
    table = [[1, 2], [3, 4], [5, 6]]
    assert run("embed", weights=[table], width=2, chunks=((3, 0),), scale=2.0) == [[2, 4], [6, 8], [10, 12]]


def test_norm_divides_by_the_root_of_the_mean_square():
    # mean square 12.5 + 3.5 = 16
    assert run("norm", [[3, 4]], weights=[[1, 2]], eps=3.5, size=2) == [[0.75, 2]]


def test_norm_of_heads_is_of_each_head_alone():
    assert run("norm", [[3, 4, 0, 8]], weights=[[1, 2]], eps=0.0, size=2) == pytest.approx(
        np.array([[3 / 12.5**0.5, 8 / 12.5**0.5, 0, 16 / 32**0.5]])
    )


def test_linear_is_rows_of_the_matrix_plus_bias():
    matrix = [[1, 2], [3, 4], [5, 6]]
    assert run("linear", [[1, 10]], weights=[matrix], width=3) == [[21, 43, 65]]
    assert run("linear", [[1, 10]], weights=[matrix, [1, 2, 3]], width=3) == [[22, 45, 68]]


def test_split_takes_columns():
    assert run("split", [[1, 2, 3, 4]], width=2, start=1, size=4) == [[2, 3]]
    assert run("split", [[1, 2, 3, 4, 5, 6]], width=2, start=1, size=3) == [[2, 5]]


def test_rope_turns_adjacent_pairs_or_halves_and_passes_the_rest():
    # at position 1 the first pair turns a quarter, the second a half
    for pairs, x, turned in (
        ("adjacent", [1, 2, 3, 4, 5], [-2, 1, -3, -4, 5]),
        ("halves", [1, 2, 3, 4, 5], [-3, -2, 1, -4, 5]),
    ):
        rope = Rope((math.pi / 2, math.pi), 1.0, pairs)
        first, second = run("rope", [x, x], chunks=((2, 0),), rope=rope, head_dim=5, start=0)
        assert first == x and second == pytest.approx(turned, abs=1e-6)


def test_rope_scale_lengthens_only_what_turns():
    rope = Rope((1.0,), 2.0, "halves")
    assert run("rope", [[1, 2, 3, 4, 5, 6]], rope=rope, head_dim=3, start=0) == [[2, 4, 3, 8, 10, 6]]


def attend(q, k, v, **attrs):
    plain = {"layer": 0, "window": 0, "chunk": 0, "scale": 1.0, "cap": 0.0, "slopes": ()}
    sizes = plain | {"heads": 1, "kv_heads": 1, "key_dim": 1, "value_dim": 1} | attrs
    return run("attend", q, k, v, width=sizes["heads"] * sizes["value_dim"], chunks=((len(q), 0),), **sizes)


def test_attention_weighs_values_by_softmax_and_sees_no_future():
    log = math.log(3)  # scores 0 and ln 3: weights 1/4 and 3/4
    assert attend([[1], [1]], [[0], [log]], [[8], [4]]) == pytest.approx(np.array([[8], [5]]))
    assert attend([[2], [2]], [[0], [log]], [[8], [4]], scale=0.5) == pytest.approx(np.array([[8], [5]]))


def test_a_window_forgets_what_lies_its_length_behind():
    x = [[0]] * 4
    assert attend(x, x, [[8], [4], [2], [0]], window=2) == [[8], [6], [3], [1]]


def test_heads_of_a_group_share_keys_and_values():
    q, k, v = [[0, 0, 0, 0]], [[0, 0]], [[1, 2, 3, 4]]
    assert attend(q, k, v, heads=4, kv_heads=2, value_dim=2) == [[1, 2, 1, 2, 3, 4, 3, 4]]


def test_gated_activations():
    assert run("gated", [[0, 1]], [[5, 2]], act="silu") == pytest.approx(np.array([[0, 2 / (1 + math.exp(-1))]]))
    # gelu(1) in the tanh form, worked out with 12 digits
    assert run("gated", [[0, 1, -9]], [[5, 2, 1]], act="gelu") == pytest.approx(np.array([[0, 2 * 0.841191990608, 0]]))


def test_add_and_softcap():
    assert run("add", [[1, 2]], [[3, 5]]) == [[4, 7]]
    assert run("softcap", [[0, 5, 1e9]], cap=5.0) == pytest.approx(np.array([[0, 5 * math.tanh(1), 5]]))


def test_outputs_are_the_last_rows_of_each_chunk():
    rows = [[i] for i in range(6)]
    assert run("outputs", rows, chunks=((3, 1), (1, 0), (2, 2))) == [[2], [4], [5]]


@pytest.fixture
def backend(tmp_path):
    with gguf.open(tiny.write(tmp_path / "m.gguf", "gemma3")) as file:
        yield ReferenceBackend(plan.trace(file), n_ctx=40, n_batch=30, n_seq=2)


IDS = np.random.default_rng(5).integers(0, tiny.VOCAB, 30).tolist()


def step(backend, *chunks):
    logits = np.full((sum(c.outputs for c in chunks), backend.n_vocab), np.nan, np.float32)
    backend.step(chunks, logits)
    return logits


def test_sequences_in_one_step_do_not_see_each_other(backend):
    one, two = backend.open(), backend.open()
    alone = step(backend, Chunk(one, IDS[:20], 20))
    backend.cut(one, 5)
    both = step(backend, Chunk(two, IDS[:10], 10), Chunk(one, IDS[5:20], 2))
    assert both[:10] == pytest.approx(alone[:10], abs=2e-5)
    assert both[10:] == pytest.approx(alone[18:], abs=2e-5)
    assert (backend.length(one), backend.length(two)) == (20, 10)


def test_cut_forgets(backend):
    seq = backend.open()
    whole = step(backend, Chunk(seq, IDS, 30))
    assert backend.cut(seq, 12) == 12 == backend.length(seq)
    step(backend, Chunk(seq, IDS[:7], 0))
    assert backend.cut(seq, 12) == 12
    assert step(backend, Chunk(seq, IDS[12:], 18)) == pytest.approx(whole[12:], abs=2e-5)
    with pytest.raises(RequestError, match="cannot be cut to 31"):
        backend.cut(seq, 31)


def test_sequences_are_few_and_come_back_empty(backend):
    first, second = backend.open(), backend.open()
    step(backend, Chunk(first, IDS, 1))
    with pytest.raises(BackendError, match="all 2 sequences are in use"):
        backend.open()
    backend.close_sequence(first)
    with pytest.raises(RequestError, match=f"sequence {first} is not open"):
        backend.length(first)
    assert backend.open() == first and backend.length(first) == backend.length(second) == 0


IMPOSSIBLE = {
    "no tokens": ([Chunk(0, [], 0)], RequestError, "a step of 0 tokens; must be 1..30"),
    "beyond the batch": ([Chunk(0, [1] * 31, 0)], RequestError, "a step of 31 tokens"),
    "beyond the context": ([Chunk(0, [1] * 21, 0)], ContextFullError, "41 tokens do not fit into the context of 40"),
    "twice a sequence": ([Chunk(0, [1], 0), Chunk(0, [1], 0)], RequestError, "two chunks of one sequence"),
    "an empty chunk": ([Chunk(0, [1], 0), Chunk(1, [], 0)], RequestError, "a chunk of 0 tokens"),
    "many outputs": ([Chunk(0, [1], 2)], RequestError, "a chunk of 1 tokens with 2 outputs"),
    "no such token": ([Chunk(0, [1, 300], 1)], RequestError, "token 300 is not in the vocabulary, 0..299"),
    "negative token": ([Chunk(0, [-1], 1)], RequestError, "token -1 is not in"),
    "not open": ([Chunk(1, [1], 1)], RequestError, "sequence 1 is not open"),
}


@pytest.mark.parametrize("chunks, error, text", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_steps_change_nothing(backend, chunks, error, text):
    seq = backend.open()
    step(backend, Chunk(seq, IDS[:20], 1))
    with pytest.raises(error, match=text):
        step(backend, *chunks)
    assert backend.length(seq) == 20


def test_logits_of_another_shape_are_refused(backend):
    seq = backend.open()
    with pytest.raises(RequestError, match=r"must be float32\(1, 300\)"):
        backend.step([Chunk(seq, [1], 1)], np.zeros((2, 300), np.float32))


def test_weights_that_are_not_finite_run(tmp_path):
    def edit(keys, tensors):
        tensors["output_norm.weight"][0][3] = np.inf
        tensors["token_embd.weight"][0][7] = np.nan

    with gguf.open(tiny.write(tmp_path / "m.gguf", edit=edit)) as file:
        broken = ReferenceBackend(plan.trace(file), 8, 8, 1)
        assert not np.isfinite(step(broken, Chunk(broken.open(), [1, 7], 2))).any()


def test_large_positions_turn_exactly():
    # a whole turn in 8 positions: position 80,001 is position 1
    rope = Rope((math.pi / 4,), 1.0, "halves")
    op = Op("rope", Value(1, 2), (Value(0, 2),), (), {"rope": rope, "head_dim": 2, "start": 0})
    far = Step(Weights({}), [Chunk(0, [0], 1)], [Held(length=80_001)])
    assert OPS["rope"](op, far, np.array([[1, 0]], np.float32)) == pytest.approx(np.array([[0.5**0.5] * 2]), abs=1e-6)
