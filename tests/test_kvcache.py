"""The KV cache's book-keeping: blocks in use, rings, and what a rollback may keep."""

import os
import sys

import numpy as np
import pytest

from edgeinfer.errors import BackendError
from edgeinfer.kvcache import Group, KVCache, Layer
from edgeinfer.simd_kernels.layout import BLOCK


def blocks(group, seq, length):
    """Block numbers of positions 0..length - 1."""
    return [int(group.tables[seq, position // BLOCK]) for position in range(length)]


def test_blocks_are_taken_as_a_sequence_grows():
    group = Group(0, 100, 32, 2)
    assert group.pool_blocks == 2 * 7
    for length in (1, 16, 17, 100):
        group.grow(0, length)
        assert len(group._free) == 14 - -(-length // 16)
        assert len(set(blocks(group, 0, length))) == -(-length // 16)


def test_no_block_is_in_two_sequences():
    group = Group(0, 100, 32, 3)
    rng, lengths = np.random.default_rng(0), [0, 0, 0]
    for _ in range(300):
        seq, length = int(rng.integers(3)), int(rng.integers(101))
        group.grow(seq, length) if length > lengths[seq] else group.cut(seq, length)
        lengths[seq] = length
        used = [set(blocks(group, seq, lengths[seq])) for seq in range(3)]
        assert [len(each) for each in used] == [-(-n // 16) for n in lengths]
        assert len(set.union(*used)) == sum(map(len, used)) == 21 - len(group._free)


def test_growing_keeps_the_blocks_there_are():
    group = Group(0, 100, 32, 2)
    group.grow(0, 20)
    before = blocks(group, 0, 20)
    group.grow(1, 90)
    group.grow(0, 100)
    assert blocks(group, 0, 20) == before
    group.cut(0, 33)
    assert blocks(group, 0, 20) == before


def test_a_full_pool_serves_every_sequence_to_its_end():
    group = Group(0, 50, 16, 2)
    group.grow(0, 50)
    group.grow(1, 50)
    assert group._free == [] and not set(blocks(group, 0, 50)) & set(blocks(group, 1, 50))
    group.cut(0, 0)
    group.grow(0, 50)


@pytest.mark.parametrize("window", [0, 8])
def test_sequences_may_share_the_room_for_one_step(window):
    group = Group(window, 100, 100, 8, together=100)
    assert group.pool_blocks == 100 // BLOCK + 8
    for lengths in ([1] * 8, [17, 33, 50], [100], [12, 12, 12, 12, 13, 13, 13, 13]):
        for seq, length in enumerate(lengths):
            group.grow(seq, length)
        used = [set(blocks(group, seq, length)) for seq, length in enumerate(lengths)]
        assert len(set.union(*used)) == sum(-(-length // BLOCK) for length in lengths)
        for seq in range(8):
            group.cut(seq, 0)
    for seq in range(2):
        group.grow(seq, 100)
    with pytest.raises(BackendError, match="more tokens together"):
        group.grow(2, 1)
    assert Group(0, 100, 32, 2, together=10**6).pool_blocks == 14


def test_a_ring_repeats_its_blocks():
    group = Group(8, 1000, 4, 1)
    group.grow(0, 1000)
    ring = group.ring
    assert ring == group.pool_blocks == 2 and len(set(blocks(group, 0, 1000))) == ring
    assert (group.tables[0, ring:] == group.tables[0, :-ring]).all()


@pytest.mark.parametrize("n_ctx", [64, 1_000, 100_000])
def test_the_memory_of_a_ring_does_not_depend_on_the_context(n_ctx):
    cache = KVCache([Layer(0, 20, 2, 32, 32)], n_ctx, 16, 3, "f16")
    assert cache.pools[0].nbytes == KVCache([Layer(0, 20, 2, 32, 32)], 10**6, 16, 3, "f16").pools[0].nbytes


def test_a_ring_is_never_longer_than_the_context():
    assert Group(4096, 100, 512, 1).ring == 7


def test_of_pools_of_positions_only_the_last_one_is_kept():
    cache = KVCache([Layer(0, 0, 1, 8, 8), Layer(1, 0, 1, 8, 8, stride=4)], 130, 8, 1, "f32")
    (whole, pools), cache.lengths[0] = cache.groups.values(), 0
    assert whole.pool_blocks == 9 and pools.pool_blocks == 2 and cache.pools[0].nbytes == 4.5 * cache.pools[1].nbytes
    for length, held in ((3, 0), (4, 1), (67, 1), (68, 2), (130, 2)):
        cache.grow(0, length)
        assert len(pools._held[0]) == held
    assert cache.cut(0, 67) == 67 and len(pools._held[0]) == 1
    assert cache.cut(0, 3) == 3 and len(pools._held[0]) == 0
    assert KVCache([Layer(1, 0, 1, 8, 8, stride=4)], 3, 3, 1, "f32").groups[0, 4].pool_blocks == 1  # never used


def test_layers_of_one_window_share_tables():
    layers = [Layer(0, 0, 1, 8, 8), Layer(1, 8, 1, 8, 8), Layer(2, 8, 2, 16, 8)]
    cache = KVCache(layers, 64, 8, 1, "f32")
    assert sorted(cache.groups) == [(0, 1), (8, 1)] and sorted(cache.pools) == [0, 1, 2]
    assert cache.pools[0].nbytes == 4 * 16 * (8 + 32) * 4  # values are padded to 32 dims
    assert cache.pools[2].nbytes == cache.groups[8, 1].pool_blocks * 2 * 16 * (16 + 32) * 4


class Ring:
    """What truly lies in a group's blocks: the position last written to each place, of one sequence."""

    def __init__(self, window, n_ctx, n_batch):
        self.group, self.window = Group(window, n_ctx, n_batch, 1), window
        self.places, self.length = {}, 0

    def place(self, position):
        return int(self.group.tables[0, position // BLOCK]), position % BLOCK

    def step(self, tokens):
        """A step writes all its keys first, then every token looks back over its window."""
        new = range(self.length, self.length + tokens)
        self.length += tokens
        self.group.grow(0, self.length)
        for position in new:
            self.places[self.place(position)] = position
        return all(self.sees(position) for position in new)

    def sees(self, position):
        """Whether the positions before `position` within its window are held."""
        return all(self.places.get(self.place(p)) == p for p in range(max(0, position - self.window + 1), position))

    def cut(self, length):
        self.group.cut(0, length)
        self.length = length


SIZES = [(1, 1), (2, 1), (8, 1), (8, 4), (16, 16), (17, 3), (20, 33), (33, 16), (5, 40)]


@pytest.mark.parametrize("window, n_batch", SIZES)
def test_every_token_of_every_step_finds_its_window(window, n_batch):
    rng = np.random.default_rng([window, n_batch])
    for pieces in ([n_batch], [1], rng.integers(1, n_batch + 1, 500)):
        ring, turn = Ring(window, 400, n_batch), 0
        while ring.length < 400:
            assert ring.step(min(int(pieces[turn % len(pieces)]), 400 - ring.length))
            turn += 1


@pytest.mark.parametrize("window, n_batch", SIZES)
def test_a_ring_keeps_exactly_what_is_still_there(window, n_batch):
    """Every length one could cut back to, at every length reached, against what was last written where."""
    rng = np.random.default_rng([window, n_batch])
    ring = Ring(window, 200, n_batch)
    while ring.length < 200:
        ring.step(min(int(rng.integers(1, n_batch + 1)), 200 - ring.length))
        for length in range(1, ring.length):
            if ring.group.keeps(0, length):
                assert ring.sees(length)
            elif ring.length % BLOCK == 0 and window > 1:  # a block that is partly overwritten is given up as a whole
                assert not ring.sees(length)


@pytest.mark.parametrize("window, n_batch", SIZES)
def test_cuts_that_are_kept_continue_as_if_nothing_had_been(window, n_batch):
    rng = np.random.default_rng([window, n_batch])
    ring, kept = Ring(window, 300, n_batch), 0
    for _ in range(400):
        if ring.length >= 300 - n_batch or rng.random() < 0.3:
            length = int(rng.integers(max(0, ring.length - 3 * n_batch), ring.length + 1))
            keeps = ring.group.keeps(0, length)
            kept += keeps and length > 0
            ring.cut(length if keeps else 0)
        assert ring.step(int(rng.integers(1, n_batch + 1)))
    assert kept


def cache_of(*windows, n_ctx=200, n_batch=8, n_seq=2):
    cache = KVCache([Layer(i, window, 1, 8, 8) for i, window in enumerate(windows)], n_ctx, n_batch, n_seq, "f32")
    for seq in range(n_seq):
        cache.lengths[seq] = 0
    return cache


def grow(cache, seq, length):
    cache.grow(seq, length)
    cache.lengths[seq] = length


def test_cut_keeps_the_length_where_all_layers_can():
    cache = cache_of(0, 8)
    grow(cache, 0, 100)
    assert cache.cut(0, 99) == 99 == cache.lengths[0]


def test_cut_falls_back_to_nothing_where_a_ring_has_forgotten():
    cache = cache_of(0, 8)
    grow(cache, 0, 100)
    grow(cache, 1, 100)
    assert cache.cut(0, 20) == 0 == cache.lengths[0]
    assert cache.lengths[1] == 100 and cache.groups[0, 1]._held[0] == [] == cache.groups[8, 1]._held[0]


def test_after_a_cut_to_nothing_a_ring_remembers_nothing():
    cache = cache_of(8)
    grow(cache, 0, 190)
    cache.cut(0, 0)
    grow(cache, 0, 5)
    assert cache.cut(0, 3) == 3


def test_a_cut_ring_knows_how_far_it_had_come():
    """Cut from 100 to 98 and again: what was overwritten on the way to 100 stays lost."""
    cache = cache_of(8, n_batch=8)
    reached = 100
    grow(cache, 0, reached)
    kept = [n for n in range(1, reached) if cache.groups[8, 1].keeps(0, n)]
    assert cache.cut(0, kept[-1]) == kept[-1] and cache.cut(0, kept[0]) == kept[0]
    assert cache.cut(0, kept[0] - 1) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_token_takes_small_pages():
    """However large a pool is, and whoever asks for huge pages."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    cache = KVCache([Layer(n, 0, 1, 64, 64) for n in range(16)], 1 << 15, 512, 1, "f16")
    before = resident()
    for pool in cache.pools.values():
        assert len(pool) == 8 << 20
        assert not pool[:4096].any()
        pool[5 << 20 : (5 << 20) + 4096] = 1
    assert resident() - before < 16 << 20
