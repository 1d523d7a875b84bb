"""Scores of positions and the choice among them against numpy, in all kinds of numbers the cache can hold."""

import numpy as np
import pytest

from edgeinfer.simd_kernels import layout, record
from tests.simd_kernels import twins
from tests.simd_kernels.harness import between_rows, guarded, padded_rows, write
from tests.simd_kernels.test_attention import KV_TYPES, Cache


def rate(cache, counts, heads, threads, each=False):
    """(got, want) f32[rows, sets, positions in whole blocks]: of the last `counts` tokens of each sequence."""
    size, rows = cache.dims[0], sum(counts)
    q, w = (padded_rows(cache.rng.standard_normal((rows, n), dtype=np.float32)) for n in (heads * size, heads))
    lengths = [len(keys) for keys, _ in cache.kv]
    tokens = [np.arange(length)[-n:] for length, n in zip(cache.lengths, counts, strict=True)]
    positions = [(own + 1) // cache.stride - 1 for own in tokens]
    spans = guarded(np.stack([np.cumsum(counts) - counts, counts], axis=1))
    room = layout.scratch_bytes(8, cache.kernels.tier.panel_rows, 32)
    places, scratch = guarded(np.concatenate(positions)), guarded(np.zeros(room * threads, np.uint8))
    numbers = {"spans": spans, "span_count": len(counts)}
    step = write(record.STEP, **numbers, scratch=scratch, scratch_bytes=room)
    width, sets = layout.up(max(lengths), layout.BLOCK), heads if each else 1
    out = padded_rows(np.full((rows, sets * width), np.nan, np.float32))
    fields = cache.fields | {"tables": cache.rows(np.repeat(np.arange(len(counts)), counts))}
    fields |= {"heads": heads, "set_bytes": 4 * width, "positions": places}
    more = {"counter": np.zeros(1, np.int64), "q": q, "w": w, "out": out}
    cache.kernels.operate(f"rate{'.each' * each}.{cache.kv_type}", record.RATE, rows, threads, step, **fields, **more)
    assert np.isnan(between_rows(out)).all()
    want = np.full((rows, sets, width), np.nan)
    for (start, count), (keys, _), own in zip(spans, cache.kv, positions, strict=True):
        part = slice(start, start + count)
        products = np.einsum("thd,pd->tph", q[part].reshape(count, heads, size).astype(np.float64), keys[:, 0])
        summed = (np.maximum(products, 0) * w[part, None]).sum(axis=-1, keepdims=True)
        want[part, :, : len(keys)] = (products if each else summed).transpose(0, 2, 1)
        places = np.arange(width)
        hidden = (places > own[:, None]) & (places < layout.up(len(keys), layout.BLOCK))
        want[part] = np.where(hidden[:, None], -np.inf, want[part])
    return out.reshape(want.shape), want


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("heads, size", [(1, 32), (4, 16), (7, 40), (64, 128)])
@pytest.mark.parametrize("counts, threads", [([1], 1), ([19], 2), ([3, 40], 3)])
@pytest.mark.parametrize("each", [False, True])
def test_scores_of_all_positions(kernels, kv_type, heads, size, counts, threads, each):
    cache = Cache(kernels, kv_type, 1, size, n_ctx=300, n_seq=len(counts))
    cache.store([280, 33][: len(counts)])
    cache.store(counts)
    got, want = rate(cache, counts, heads, threads, each)
    assert (np.isneginf(got) == np.isneginf(want)).all()
    seen = np.isfinite(want)
    assert np.abs(got[seen] - want[seen]).max() <= 1e-5 * np.abs(want[seen]).max() and seen.any(axis=2).all()


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("counts", [[1, 1], [70, 2]])
def test_scores_of_pools_of_positions(kernels, kv_type, counts):
    """The second sequence has none yet."""
    cache = Cache(kernels, kv_type, 1, 32, n_ctx=100, n_seq=2, stride=4)
    cache.store([301, 1])
    cache.store(counts)
    got, want = rate(cache, counts, 4, 2)
    hidden = np.isneginf(want) | np.isnan(want)
    assert hidden[-1].all() and (np.isneginf(got) == np.isneginf(want))[~np.isnan(got)].all()
    assert np.abs(got[~hidden] - want[~hidden]).max() <= 1e-5 * np.abs(want[~hidden]).max()


def choose(kernels, scores, positions, most, name="choose", sets=1, **fields):
    """bool[rows, sets * positions]"""
    out = padded_rows(np.full((len(scores), scores.shape[1] // 16), np.nan, np.float32))
    places, x = guarded(np.array(positions)), padded_rows(scores)
    scratch = guarded(np.zeros(8 * scores.shape[1], np.uint8))
    step = write(record.STEP, scratch=scratch)
    fields |= {"positions": places, "most": most, "sets": sets, "width": scores.shape[1] // sets}
    kernels.operate(name, record.CHOOSE, len(scores), 1, step, x=x, out=out, **fields)
    assert np.isnan(between_rows(out)).all()
    words = np.nan_to_num(out).astype(np.int64)
    return (words[:, :, None] >> np.arange(16) & 1).reshape(scores.shape).astype(bool)


@pytest.mark.parametrize("most", [1, 5, 40, 199, 300])
@pytest.mark.parametrize("grain", [0.0, 0.5, 100.0])
def test_the_best_are_chosen_and_of_equal_ones_the_first(kernels, most, grain):
    rng, positions = np.random.default_rng(most), [0, 39, 40, 199, 250]
    scores = rng.standard_normal((len(positions), 256), dtype=np.float32) * 9
    scores = np.trunc(scores / grain) * np.float32(grain) if grain else scores
    scores[np.arange(256) > np.array(positions)[:, None]] = -np.inf
    got = choose(kernels, scores, positions, most)
    for row, position, chosen in zip(scores, positions, got, strict=True):
        best = np.argsort(-row[: position + 1], kind="stable")[:most]
        assert np.flatnonzero(chosen[: position + 1]).tolist() == sorted(best.tolist())


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("most, local", [(1, 0), (1, 1), (3, 2), (40, 1)])
def test_blocks_are_as_good_as_their_best_position_and_the_last_ones_are_chosen_anyway(kernels, block, most, local):
    rng, positions, sets = np.random.default_rng(block), [0, 15, 16, 130, 511], 3
    scores = rng.standard_normal((len(positions), sets, 512), dtype=np.float32)
    seen = np.arange(512) <= np.array(positions)[:, None, None]
    scores = np.where(
        seen, scores, np.where(np.arange(512) // 16 > np.array(positions)[:, None, None] // 16, 9, -np.inf)
    )
    flat = scores.reshape(len(positions), -1).astype(np.float32)
    got = choose(kernels, flat, positions, most, "choose.blocks", sets, block=block, local=local)
    for rows, position, chosen in zip(scores, positions, got.reshape(scores.shape), strict=True):
        own = position // block
        for row, bits in zip(rows, chosen, strict=True):
            best = [row[start : min(start + block, position + 1)].max() for start in range(0, position + 1, block)]
            ranks = [(-1, i) if i > own - local else (0, -value) for i, value in enumerate(best)]
            wanted = sorted(range(own + 1), key=lambda i: ranks[i])[:most]
            assert np.flatnonzero(bits[: position + 1 : block]).tolist() == sorted(wanted)
            assert (bits[: position + 1] == np.isin(np.arange(position + 1) // block, wanted)).all()


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_pools_are_as_good_as_their_last_position_and_one_that_is_not_whole_is_chosen_besides(kernels, block, most):
    rng, positions, sets = np.random.default_rng(block), [0, 3, 15, 16, 17, 130, 255], 2
    scores = rng.standard_normal((len(positions), sets, 256), dtype=np.float32)
    scores[np.broadcast_to((np.arange(256) > np.array(positions)[:, None])[:, None], scores.shape)] = -np.inf
    got = choose(kernels, scores.reshape(len(positions), -1), positions, most, "choose.pools", sets, block=block)
    for rows, position, chosen in zip(scores, positions, got.reshape(scores.shape), strict=True):
        whole = (position + 1) // block
        for row, bits in zip(rows, chosen, strict=True):
            best = np.argsort(-row[block - 1 : whole * block : block], kind="stable")[:most]
            wanted = np.isin(np.arange(position + 1) // block, [*best, whole])
            assert (bits[: position + 1] == wanted).all() and wanted.any()


@pytest.mark.parametrize("count", [1, 40])
def test_kv_heads_may_attend_to_other_positions_each(kernels, count):
    cache = Cache(kernels, "f32", 2, 32, n_ctx=300)
    cache.store([300])
    seen = cache.rng.random((count, 2, 512)) < 0.3
    seen[:, :, 0] = True
    got, want = cache.attend([count], group=2, seen=seen)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("kv_type", KV_TYPES)
@pytest.mark.parametrize("count", [1, 70])
@pytest.mark.parametrize("sinks", [(), (-1.0, 0.5, 3.0, 20.0)])
def test_attention_to_what_is_chosen(kernels, kv_type, count, sinks):
    """None in the whole of some blocks and chunks, and of one row only the first position of all."""
    cache = Cache(kernels, kv_type, 2, 32, n_ctx=600)
    cache.store([600])
    seen = cache.rng.random((count, layout.up(600, layout.CHUNK))) < 0.2
    seen[:, 256:512] &= np.arange(count)[:, None] % 2 == 0
    seen[:, 64:96] = False
    seen[:, 0] = True
    seen[-1, 1:] = False
    got, want = cache.attend([count], group=2, sinks=sinks, seen=seen, threads=2)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_the_twins_of_keys_are_those_that_the_cache_gives_back():
    keys = np.random.default_rng(0).standard_normal((3, 1, 40), dtype=np.float32)
    assert (twins.cached(keys, "f32") == keys).all()
