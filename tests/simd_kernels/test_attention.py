"""Storing to the cache and attention over it against plain softmax, in all kinds of numbers the cache can hold."""

import numpy as np
import pytest

from edgeinfer.simd_kernels import layout, record
from edgeinfer.simd_kernels.layout import BLOCK
from tests.simd_kernels import twins
from tests.simd_kernels.harness import between_rows, guarded, padded_rows, write

KV_TYPES = list(layout.KV_BYTES)


class Cache:
    """A layer's pool, every block of it in use by some sequence in no order, and at first full of NaN."""

    def __init__(self, kernels, kv_type, kv_heads=1, key_dim=64, value_dim=None, n_ctx=96, n_seq=1, stride=1):
        self.kernels, self.kv_type, self.kv_heads, self.n_seq = kernels, kv_type, kv_heads, n_seq
        self.stride, self.lengths = stride, [0] * n_seq  # tokens; of as many in a row the last one is kept
        self.dims = key_dim, value_dim or key_dim
        self.rng = np.random.default_rng([key_dim, kv_heads, n_ctx])
        key_bytes, value_bytes = layout.block_bytes(kv_type, *self.dims)
        blocks = n_seq * layout.up(n_ctx, BLOCK) // BLOCK
        head_bytes = blocks * (key_bytes + value_bytes)
        self.pool = guarded(np.full(kv_heads * head_bytes, 255, np.uint8))
        self.tables = guarded(self.rng.permutation(blocks).astype(np.int32).reshape(n_seq, -1))
        self.kv = [[np.zeros((0, kv_heads, dim), np.float32) for dim in self.dims] for _ in range(n_seq)]
        self.fields = {
            "pool": self.pool, "head_bytes": head_bytes, "value_at": blocks * key_bytes,
            "key_bytes": key_bytes, "value_bytes": value_bytes,
            "kv_heads": kv_heads, "key_dim": self.dims[0], "value_dim": self.dims[1],
        }  # fmt: skip

    def rows(self, seqs):
        """i64: for rows of these sequences the addresses of their tables."""
        return guarded(np.array([self.tables.ctypes.data + seq * self.tables.strides[0] for seq in seqs]))

    def store(self, counts, threads=1, spread=1.0, broken=None):
        """Append so many tokens to each sequence, in one step; keys (0) or values (1) may be broken: NaN."""
        seqs = np.repeat(np.arange(self.n_seq), counts)
        positions = np.concatenate([self.lengths[seq] + np.arange(n) for seq, n in enumerate(counts)])
        shapes = [(len(seqs), self.kv_heads * dim) for dim in self.dims]
        new = [self.rng.standard_normal(shape, dtype=np.float32) * np.float32(spread) for shape in shapes]
        if broken is not None:
            new[broken][:] = np.nan
        k, v = (padded_rows(x) for x in new)
        positions = guarded(positions)
        step = write(record.STEP, positions=positions)
        fields = self.fields | {"k": k, "v": v, "tables": self.rows(seqs), "stride": self.stride}
        self.kernels.operate(f"store.{self.kv_type}", record.STORE, len(seqs), threads, step, **fields)
        kept = (positions + 1) % self.stride == 0
        for seq in range(self.n_seq):
            self.lengths[seq] += counts[seq]
            for i, x in enumerate(new):
                heads = x[(seqs == seq) & kept].reshape(-1, self.kv_heads, self.dims[i])
                self.kv[seq][i] = np.concatenate([self.kv[seq][i], twins.cached(heads, self.kv_type)])

    def attend(
        self,
        counts,
        group=1,
        window=0,
        scale=0.125,
        threads=1,
        spread=1.0,
        ahead=0,
        slopes=(),
        q=None,
        cap=0.0,
        sinks=(),
        biases=(),
        seen=None,
        text=False,
        logs=False,
    ):
        """(got, want) f32[rows, heads, value_dim] for queries of the last `counts` tokens of the sequences, or for so
        many rows at the end of each that is a `text`; behind them with `logs` the logarithms of the sums of weights."""
        rows, heads = sum(counts), self.kv_heads * group
        if q is None:
            q = self.rng.standard_normal((rows, heads * self.dims[0]), dtype=np.float32) * np.float32(spread)
        seqs = [seq for seq, n in enumerate(counts) if n]
        own = [(places(counts[s], self.lengths[s], text) + 1) // self.stride - 1 for s in seqs]
        positions = guarded(np.concatenate(own))
        ends = np.cumsum([counts[s] for s in seqs])
        spans = guarded(np.stack([ends - [counts[s] for s in seqs], [counts[s] for s in seqs]], axis=1))
        each = layout.scratch_bytes(8, self.kernels.tier.panel_rows, 32)
        scratch = guarded(np.full(each * threads, 255, np.uint8))
        chunks = max(layout.chunk_count(max(len(self.kv[seq][0]) for seq in seqs)), 1)
        parts = guarded(np.full(rows * heads * chunks * layout.ROW, 255, np.uint8))
        done = guarded(np.zeros(rows * heads, np.int64))
        step = write(
            record.STEP, tokens=rows, positions=positions, spans=spans, span_count=len(seqs), scratch=scratch,
            scratch_bytes=each, parts=parts, chunk_count=chunks, done=done,
        )  # fmt: skip
        out = padded_rows(np.full((rows, heads * (self.dims[1] + logs)), np.nan, np.float32))
        tables = self.rows(np.repeat(seqs, [counts[s] for s in seqs]))
        fields = self.fields | {"tables": tables, "positions": positions}
        fields |= {"group": group, "window": window, "ahead": ahead}
        extras = {"cap": cap, "slopes": slopes, "sinks": sinks, "logs": logs}
        for extra, numbers in extras.items():
            if numbers and extra != "logs":
                fields["cap_f32" if extra == "cap" else extra] = cap or guarded(np.array(numbers, np.float32))
        if len(biases):
            extras["biases"], fields["slopes"] = True, guarded(np.array(biases, np.float32))
        if seen is not None:
            bits = seen.reshape(rows, -1, 16) @ 2.0 ** np.arange(16)
            fields["seen_head"] = 4 * bits.shape[1] // seen.shape[1] if seen.ndim == 3 else 0
            extras["seen"], fields["seen"] = True, padded_rows(bits.astype(np.float32))
        name = layout.attend_name(self.kv_type, [extra for extra, numbers in extras.items() if numbers])
        more = {"counter": np.zeros(1, np.int64), "scale_f32": scale, "q": padded_rows(q), "out": out}
        self.kernels.operate(name, record.ATTEND, rows, threads, step, threads > 2, **fields, **more)
        assert np.isnan(between_rows(out)).all() and not done.any()
        if self.kv_type == "q8_0":  # queries are 8-bit codes there as well
            q = np.concatenate([twins.rounded(x) for x in np.split(q, heads, axis=1)], axis=1)
        return out, np.concatenate(
            [
                softmax(x, *self.kv[s], at, scale, window, ahead, slopes, cap, sinks, biases, seen, logs)
                for s, x, at in zip(seqs, np.split(q, ends[:-1]), own, strict=True)
            ]
        )


def places(count, length, text):
    return np.full(count, length - 1) if text else np.arange(length)[-count:]


def softmax(
    q, keys, values, at, scale, window, ahead=0, slopes=(), cap=0.0, sinks=(), biases=(), seen=None, logs=False
):
    """Attention of rows at the positions `at`, in float64; `seen` bool[rows, positions] where not all count, or
    bool[rows, kv_heads, positions].

    keys, values [positions, kv_heads, dim] -> [rows, heads * value_dim]."""
    q = q.reshape(len(q), -1, keys.shape[2]).astype(np.float64)
    group = q.shape[1] // keys.shape[1]
    keys, values = (np.repeat(x, group, axis=1).astype(np.float64) for x in (keys, values))
    scores = np.einsum("thd,phd->htp", q, keys) * scale
    scores = cap * np.tanh(scores / cap) if cap else scores
    behind = at[:, None] - np.arange(len(keys))
    scores -= np.array(slopes or [0.0])[:, None, None] * np.abs(behind)
    if len(biases):
        middle = layout.BIASES // 2
        scores += biases[:, middle - np.clip(behind, -middle, middle)] * np.log(2)
    scores[:, (behind < -ahead) | (behind >= (window or len(keys)))] = -np.inf
    if seen is not None:
        sets = seen.reshape(len(seen), -1, seen.shape[-1])[:, :, : len(keys)].transpose(1, 0, 2)
        scores[~np.repeat(sets, len(scores) // len(sets), axis=0)] = -np.inf
    top = scores.max(axis=-1, keepdims=True, initial=-1e30)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True) + (np.exp(np.array(sinks)[:, None, None] - top) if sinks else 0)
    mean = np.einsum("htp,phd->thd", weights / np.where(total > 0, total, 1), values).reshape(len(q), -1)
    with np.errstate(divide="ignore"):
        return np.hstack([mean, (top + np.log(total))[:, :, 0].T]) if logs else mean


def close(pair, limit=3e-6):
    got, want = pair
    return np.abs(got - want).max() <= limit * np.abs(want).max()


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize(
    "key_dim, value_dim", [(8, 8), (12, 12), (24, 40), (64, 64), (80, 80), (128, 96), (256, 256), (64, 128), (5, 7)]
)
def test_head_sizes(kernels, kv_type, key_dim, value_dim):
    cache = Cache(kernels, kv_type, 2, key_dim, value_dim)
    cache.store([37])
    assert close(cache.attend([3], group=2))
    assert close(cache.attend([1], group=2))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("group", [1, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 19])
def test_groups_of_heads(kernels, kv_type, group, count):
    cache = Cache(kernels, kv_type, 2, 32)
    cache.store([40], threads=3)
    assert close(cache.attend([count], group))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 48, 65, 96])
def test_lengths_around_blocks(kernels, kv_type, length):
    """One token, and the whole prompt."""
    cache = Cache(kernels, kv_type, 1, 32)
    cache.store([length])
    assert close(cache.attend([1]))
    assert close(cache.attend([length], threads=2))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("length", [255, 256, 257, 600])
@pytest.mark.parametrize("window", [0, 200, 300])
def test_lengths_around_chunks(kernels, kv_type, length, window):
    cache = Cache(kernels, kv_type, 1, 32, n_ctx=600)
    cache.store([length])
    assert close(cache.attend([1], group=4, window=window))
    assert close(cache.attend([9], group=6, window=window))
    assert close(cache.attend([70], group=2, window=window), 1e-5)


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("window", [0, 300])
@pytest.mark.parametrize("group, dims", [(1, (32, 32)), (3, (80, 160))])
def test_a_row_has_the_same_bits_whatever_rows_are_with_it_and_whoever_works(kernels, kv_type, window, group, dims):
    """As many of them go through panels, and few do not."""
    cache = Cache(kernels, kv_type, 2, *dims, n_ctx=1500)
    cache.store([1500])
    q = cache.rng.standard_normal((90, 2 * group * dims[0]), dtype=np.float32)
    want, _ = cache.attend([90], group, window, q=q)
    for count in (1, 2, 5, 16, 17):
        for threads in (1, 5):
            got, _ = cache.attend([count], group, window, q=q[-count:], threads=threads)
            assert (got == want[-count:]).all()


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
def test_blocks_that_no_row_of_a_tile_sees_are_not_visited(kernels, kv_type):
    """Values that are not numbers, in blocks behind what rows see, and in blocks before their window."""
    cache = Cache(kernels, kv_type, 1, 32)
    cache.store([48])
    cache.store([16], broken=1)
    cache.store([32])
    q = cache.rng.standard_normal((96, 32), dtype=np.float32)
    bad = np.isnan(cache.attend([96], q=q)[0]).all(axis=1)
    assert not bad[:48].any() and bad[48:].all()
    bad = np.isnan(cache.attend([96], window=16, q=q)[0]).any(axis=1)
    assert not bad[:48].any() and bad[48:64].all() and not bad[84:].any()


@pytest.mark.parametrize("window", [1, 2, 8, 16, 17, 33, 500])
@pytest.mark.parametrize("count", [1, 7, 40])
def test_windows(kernels, window, count):
    cache = Cache(kernels, "f32", 2, 32)
    cache.store([90])
    assert close(cache.attend([count], group=3, window=window))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("counts", [[1, 0], [1, 7], [40, 3]])
def test_all_of_a_text_is_seen_by_as_many_rows_as_there_are(kernels, kv_type, counts):
    """Of 300 keys, and of fewer than rows."""
    cache = Cache(kernels, kv_type, 2, 32, n_seq=2, n_ctx=300)
    cache.store([300, 2])
    assert close(cache.attend(counts, group=2, threads=2, text=True))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("counts", [[1, 1, 1], [5, 1, 33], [0, 20, 2], [1, 0, 1]])
@pytest.mark.parametrize("window", [0, 9])
def test_sequences_of_one_step_see_only_themselves(kernels, kv_type, counts, window):
    cache = Cache(kernels, kv_type, 2, 16, n_seq=3)
    cache.store([40, 21, 1])
    cache.store([1, 20, 33], threads=2)
    assert close(cache.attend(counts, group=2, window=window, threads=2))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("lengths", [[1], [40], [90, 3, 17]])
@pytest.mark.parametrize("window, ahead", [(0, 1000), (9, 8), (33, 32), (0, 1)])
def test_what_follows_is_seen_as_far_as_the_step_goes(kernels, kv_type, lengths, window, ahead):
    cache = Cache(kernels, kv_type, 2, 16, n_seq=len(lengths))
    cache.store(lengths)
    assert close(cache.attend(lengths, group=2, window=window, threads=2, ahead=ahead))


def test_slopes_count_distances_to_both_sides(kernels):
    cache = Cache(kernels, "f32", 2, 16)
    cache.store([50])
    assert close(cache.attend([50], group=2, ahead=1000, slopes=(0.5, 0.25, 0.125, 0.0625)))
    assert close(cache.attend([50], group=2, slopes=(0.5, 0.25, 0.125, 0.0625)))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("length, ahead", [(5, 0), (50, 1000), (700, 1000)])
def test_biases_go_by_distance_up_to_their_reach(kernels, kv_type, length, ahead):
    cache = Cache(kernels, kv_type, 2, 16, n_ctx=704)
    cache.store([length])
    far = layout.REACH + layout.BLOCK
    places = np.clip(np.arange(-far, far + 1), -layout.REACH, layout.REACH) + layout.REACH
    biases = np.random.default_rng(length).standard_normal((4, 2 * layout.REACH + 1)).astype(np.float32)[:, places]
    assert close(cache.attend([length], group=2, ahead=ahead, biases=biases, threads=2))


@pytest.mark.parametrize("count", [1, 50])
def test_scores_with_a_cap(kernels, count):
    cache = Cache(kernels, "f32", 2, 16)
    cache.store([50])
    assert close(cache.attend([count], group=2, scale=1.0, cap=3.0), 1e-5)


@pytest.mark.parametrize("count", [1, 50])
def test_sinks_take_their_share_of_the_weights(kernels, count):
    cache = Cache(kernels, "f32", 2, 16)
    cache.store([50])
    assert close(cache.attend([count], group=2, sinks=(-1.0, 0.5, 3.0, 20.0)))


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("stride, steps", [(4, [3, 1, 9]), (4, [700, 1]), (3, [1, 60]), (128, [130, 127])])
def test_of_pools_of_positions_the_last_one_is_kept_and_seen_from_it_on(kernels, kv_type, stride, steps):
    cache = Cache(kernels, kv_type, 2, 32, n_ctx=176, n_seq=2, stride=stride)
    for count in steps:
        cache.store([count, 2], threads=2)
    for counts in ([steps[-1], 2], [1, 1]):
        for threads in (1, 3):
            got, want = cache.attend(counts, group=2, logs=True, threads=threads)
            none = np.isneginf(want)
            assert none[-1, -4:].all() == (stride > 4) and (np.isneginf(got) == none).all()
            assert (got[(want == 0)] == 0).all() and close((got[~none], want[~none]), 1e-5)


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("count, spread", [(1, 1.0), (300, 1.0), (20, 30.0)])
@pytest.mark.parametrize("more", ["", "sinks", "seen"])
def test_logarithms_of_the_sums_of_weights(kernels, kv_type, count, spread, more):
    cache = Cache(kernels, kv_type, 2, 32, n_ctx=300)
    cache.store([300])
    seen = (cache.rng.random((count, 512)) < 0.3) | (np.arange(512) == 0)
    extra = {"": {}, "sinks": {"sinks": (-1.0, 0.5, 3.0, 90.0)}, "seen": {"seen": seen}}[more]
    got, want = cache.attend([count], group=2, spread=spread, logs=True, threads=2, **extra)
    assert close((got[:, 128:], want[:, 128:]), 1e-5) and close((got[:, :128], want[:, :128]), 1e-4)


@pytest.mark.parametrize("spread", [30.0, 1e-3])
def test_scores_far_apart(kernels, spread):
    """Weights of one and zero, rows whose maximum rises late, and weights that are all alike."""
    cache = Cache(kernels, "f32", 1, 64)
    cache.store([90], spread=spread)
    assert close(cache.attend([90], scale=1.0, spread=spread), 1e-5 if spread < 1 else 1e-3)


def test_all_scores_far_below_zero(kernels):
    cache = Cache(kernels, "f32", 1, 16)
    cache.store([40])
    assert close(cache.attend([40], scale=-100.0), 1e-4)


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_heads_as_large_as_there_is_room_for(kernels, kv_type):
    cache = Cache(kernels, kv_type, 1, layout.HEAD_ROOM)
    cache.store([20])
    assert close(cache.attend([9], group=2))


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_a_far_position(kernels, kv_type):
    cache = Cache(kernels, kv_type, 1, 8, n_ctx=5000)
    cache.store([5000])
    assert close(cache.attend([2], group=3), 1e-5)
    assert close(cache.attend([2], group=3, window=100), 1e-5)


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_zeros_stay_zeros(kernels, kv_type):
    cache = Cache(kernels, kv_type, 1, 40)
    cache.store([3], spread=0)
    got, want = cache.attend([3])
    assert (got == 0).all() and (want == 0).all()


@pytest.mark.parametrize("kv_type", ["f32", "f16"])
@pytest.mark.parametrize("at", [0, 1])
def test_what_is_not_finite_is_seen_by_those_who_look_at_it(kernels, kv_type, at):
    """NaN in the key or the value of position 20."""
    cache = Cache(kernels, kv_type, 1, 16)
    cache.store([20])
    cache.store([1], broken=at)
    cache.store([5])
    assert np.isnan(cache.attend([5])[0]).all() and np.isnan(cache.attend([1], window=6)[0]).all()
