"""The cpu backend against the reference: architectures, tensor types and KV types, however a text is cut into steps."""

import dataclasses
import functools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from edgeinfer import machine, reference
from edgeinfer.backend import Chunk
from edgeinfer.cpu import CpuBackend
from edgeinfer.errors import BackendError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.plan import Plan, trace
from edgeinfer.reference import ReferenceBackend
from edgeinfer.simd_kernels import cpu, kernels, layout
from tests import blocks, tiny
from tests.simd_kernels import harness, twins
from tests.test_backend import step

ARCHS = list(tiny.ARCH_SHAPE)
TYPES = [*kernels.QUANTS, *kernels.FLOATS]
COMMON = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()
EACH = [(arch, kind) for kind in TYPES for arch in ARCHS if kind in COMMON or arch == "llama"]
TOGETHER = 12  # sequences in a step
IDS = [int(i) for i in np.random.default_rng(0).integers(0, tiny.VOCAB, 45)]
ODD_PIECES = (1, 5, 2, 9)

# Both sum up float32, in another order: some 2**-24 for each of hundreds of additions, layer after layer.
TIGHT = 1e-4
# Among the numbers taken finely there is always one so near to the middle of two codes of 16 bits that these last bits
# decide; that comes to so much.
FINE = 5e-4
# How much farther from the exact logits the kernels may be than the reference with the same rounding.  They are not
# equal: where a number lies so near to the middle of two codes that the last bit of a sum decides, all rounding after
# it falls anew.
AS_NEAR = 1.15


@dataclasses.dataclass
class Model:
    """A tiny model's plan, and the reference backend for it, which dequantises its weights once."""

    plan: Plan

    @functools.cached_property
    def judge(self):
        return ReferenceBackend(self.plan, 300, 300, TOGETHER)

    def logits(self, ids):
        """What the reference says, or what it says with rounding (see below)."""
        seq = self.judge.open()
        out = run(self.judge, seq, ids)
        self.judge.close_sequence(seq)
        return out


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A function that gives a tiny model; each is written once."""
    folder, models = tmp_path_factory.mktemp("models"), {}

    def get(arch="llama", types="F32", **options):
        key = (arch, str(types), *sorted(options.items()))
        if key not in models:
            path = tiny.write(folder / f"{len(models)}.gguf", arch, types, **options)
            models[key] = Model(trace(gguf.open(path)))
        return models[key]

    return get


@pytest.fixture
def backends():
    """A function that makes a cpu backend, which is closed at the end."""
    made = []

    def make(of, n_ctx=64, n_threads=2, kv_type="f16", n_batch=64, n_seq=1, deterministic=False):
        made.append(CpuBackend(of.plan, n_ctx, n_threads, kv_type, n_batch, n_seq, deterministic))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def run(backend, seq, ids, pieces=None):
    """Logits f32[ids, vocab] of ids appended in steps of so many tokens as `pieces` says, or all at once."""
    logits = np.full((len(ids), backend.n_vocab), np.nan, np.float32)
    start = turn = 0
    while start < len(ids):
        stop = min(start + (pieces[turn % len(pieces)] if pieces else len(ids)), len(ids))
        backend.step([Chunk(seq, ids[start:stop], stop - start)], logits[start:stop])
        start, turn = stop, turn + 1
    return logits


@pytest.fixture
def rounding(monkeypatch):
    """A function after which the reference rounds as the kernels do: activations to 8 bits, K and V to `kv_type`."""
    plain = dict(reference.OPS)

    def linear(op, given, x):
        name, tensors = op.weights[0], given.weights._tensors
        if tensors[name].type.name in layout.FLOATS:
            return plain["linear"](op, given, x)
        round_ = twins.finely_rounded if finely(name, tensors) else twins.rounded
        return plain["linear"](op, given, round_(x))

    def finely(name, tensors):
        """Attention's values, and all behind the last attention."""
        last = max(name.split(".")[1] for name in tensors if name.startswith("blk."))
        outputs = not name.startswith("blk.") or name.startswith((f"blk.{last}.attn_o", f"blk.{last}.f"))
        return outputs or "attn_v" in name

    def attend(kv_type):
        def cached(x, dim):
            """Heads of a row; codes are of rotated numbers."""
            block = layout.rotation(kv_type, dim)
            heads = twins.cached(twins.rotated(x.reshape(len(x), -1, dim), block), kv_type)
            return twins.rotated(heads, block).reshape(x.shape)

        def body(op, given, q, k, v):
            key_dim, value_dim = op.attrs["key_dim"], op.attrs["value_dim"]
            q = cached(q, key_dim) if kv_type == "q8_0" else q
            return plain["attend"](op, given, q, cached(k, key_dim), cached(v, value_dim))

        return body

    def start(kv_type):
        monkeypatch.setitem(reference.OPS, "linear", linear)
        monkeypatch.setitem(reference.OPS, "attend", attend(kv_type))

    return start


def off(got, want):
    """The largest difference in units of the deviation of the logits."""
    return np.abs(got - want).max() / want.std()


def off_on_average(got, want):
    return np.sqrt(np.square(got - want).mean()) / want.std()


# What a plan means


def shape(arch, kind):
    """Super-blocks make for large models: of these one layer, and Gemma's three without its wide feed-forward."""
    if GgmlType[kind].block < 256:
        return {}
    return {"ff_dim": 256} | ({} if arch == "gemma3" else {"layers": 1})


@pytest.mark.parametrize("arch, kind", EACH)
def test_every_architecture_and_type(model, backends, rounding, arch, kind):
    """A text in one step and one by one: off only by the rounding of activations, and for float types not at all."""
    this = model(arch, kind, **shape(arch, kind))
    exact = this.logits(IDS)
    rounding("f32")
    rounded = this.logits(IDS)
    backend = backends(this, kv_type="f32")
    seq = backend.open()
    for pieces in (None, [1]):
        got = run(backend, seq, IDS, pieces)
        backend.cut(seq, 0)
        if kind in layout.FLOATS:
            assert off(got, exact) <= TIGHT
        assert off_on_average(got, exact) <= AS_NEAR * off_on_average(rounded, exact) + TIGHT


@pytest.mark.parametrize("arch, kind", EACH)
def test_every_architecture_and_type_to_the_last_code(model, backends, rounding, arch, kind):
    """Tokens that see only themselves, in one step and alone: most are the reference's with the same rounding."""
    rounding("f32")
    compare_by_themselves(model(arch, kind, **shape(arch, kind)), backends)


def compare_by_themselves(this, backends):
    backend = backends(this, n_ctx=TOGETHER, n_batch=TOGETHER, n_seq=TOGETHER, kv_type="f32")
    chunks = [Chunk(backend.open(), IDS[i : i + 1], 1) for i in range(TOGETHER)]
    assert [this.judge.open() for _ in chunks] == [chunk.seq for chunk in chunks]
    want, together = step(this.judge, *chunks), step(backend, *chunks)
    for chunk in chunks:
        this.judge.close_sequence(chunk.seq)
        backend.cut(chunk.seq, 0)
    for got in (together, np.concatenate([step(backend, chunk) for chunk in chunks])):
        assert np.median(np.abs(got - want).max(axis=1)) <= FINE * want.std()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_every_kv_type(model, backends, rounding, arch, kv_type):
    this = model(arch)
    exact = this.logits(IDS)
    rounding(kv_type)
    rounded = this.logits(IDS)
    backend = backends(this, kv_type=kv_type)
    got = run(backend, backend.open(), IDS)
    assert off_on_average(got, exact) <= AS_NEAR * off_on_average(rounded, exact)
    assert off_on_average(got, rounded) <= 0.5 * off_on_average(rounded, exact)  # it is this rounding and no other


SOME = "(last_code and (Q4_K or Q6_K or Q8_0 or Q5_1 or F16)) or every_kv or pieces or several_sequences or the_cap"


@pytest.mark.parametrize("tier", [tier.name for tier in harness.TIERS if tier != cpu.host().tier])
def test_every_other_tier(tier, tmp_path):
    """Tests of this file in a process that is capped to the tier."""
    command = [sys.executable, "-m", "pytest", __file__, "-p", "no:cacheprovider", "-k", SOME]
    environment = os.environ | {"EDGEINFER_ISA": tier}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:]


def test_the_cap_is_the_tier_in_use(model, backends):
    assert backends(model()).tier.name == os.environ.get("EDGEINFER_ISA", cpu.host().tier.name)


@pytest.mark.parametrize("options", [
    {"heads": 6, "kv_heads": 3, "key_dim": 20, "value_dim": 12},
    {"heads": 8, "kv_heads": 1, "key_dim": 8, "value_dim": 8},
    {"heads": 3, "kv_heads": 3, "key_dim": 64, "value_dim": 32},
    {"tied": True, "bias": True},
    {"dim": 48, "ff_dim": 100},
], ids=str)  # fmt: skip
def test_odd_shapes(model, backends, options):
    this = model("llama", "F32", **options)
    backend = backends(this, kv_type="f32")
    assert off(run(backend, backend.open(), IDS), this.logits(IDS)) <= TIGHT


def test_types_may_differ_from_tensor_to_tensor(model, backends, rounding):
    types = {"token_embd": "Q6_K", "attn_v": "F16", "attn_q": "Q5_K", "ffn_down": "Q3_K", "ffn_up": "BF16", "": "Q4_K"}
    this = model("gemma3", types)
    exact = this.logits(IDS)
    rounding("f32")
    rounded = this.logits(IDS)
    backend = backends(this, kv_type="f32")
    got = run(backend, backend.open(), IDS)
    assert off_on_average(got, exact) <= AS_NEAR * off_on_average(rounded, exact)
    compare_by_themselves(this, backends)


# However a text is cut into steps


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
@pytest.mark.parametrize("pieces", [[1], ODD_PIECES, [16], [17, 3]], ids=str)
def test_pieces_give_the_same_logits(model, backends, arch, pieces):
    """Gemma's windows are 8: its rings go round many times."""
    backend = backends(model(arch), n_ctx=200, n_batch=45, n_seq=2, kv_type="f32")
    ids = (IDS * 4)[:150]
    whole = run(backend, backend.open(), ids, [45])
    assert off(run(backend, backend.open(), ids, pieces), whole) <= TIGHT


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_long_texts_are_the_references(model, backends, arch):
    this = model(arch)
    backend = backends(this, n_ctx=250, n_batch=32, kv_type="f32")
    ids = (IDS * 6)[:250]
    assert off(run(backend, backend.open(), ids, [32, 1, 7]), this.logits(ids)) <= TIGHT


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_several_sequences_in_a_step_are_each_alone(model, backends, arch):
    backend = backends(model(arch), n_ctx=64, n_batch=64, n_seq=3, kv_type="f32")
    texts = [IDS[:30], IDS[10:41], IDS[5:25]]
    alone = []
    for ids in texts:
        seq = backend.open()
        alone.append(run(backend, seq, ids))
        backend.close_sequence(seq)
    seqs = [backend.open() for _ in texts]
    got = [[], [], []]
    for starts, stops in (((0, 0, 0), (20, 1, 0)), ((20, 1, 0), (21, 14, 17)), ((21, 14, 17), (30, 31, 20))):
        chunks = [Chunk(s, t[a:b], b - a) for s, t, a, b in zip(seqs, texts, starts, stops, strict=True) if b > a]
        logits = step(backend, *chunks)
        for chunk in chunks:
            got[seqs.index(chunk.seq)].append(logits[: chunk.outputs])
            logits = logits[chunk.outputs :]
    for parts, want in zip(got, alone, strict=True):
        assert off(np.concatenate(parts), want) <= TIGHT


def test_only_the_last_outputs_of_a_chunk_are_given(model, backends):
    backend = backends(model("gemma3"), n_seq=2, kv_type="f32")
    one, two = backend.open(), backend.open()
    want = [run(backend, seq, ids) for seq, ids in ((one, IDS[:20]), (two, IDS[:9]))]
    backend.cut(one, 0), backend.cut(two, 0)
    got = step(backend, Chunk(one, IDS[:20], 3), Chunk(two, IDS[:9], 1))
    assert off(got, np.concatenate([want[0][-3:], want[1][-1:]])) <= TIGHT
    backend.cut(one, 10), backend.cut(two, 0)
    assert off(step(backend, Chunk(two, IDS[:9], 0), Chunk(one, IDS[10:20], 2)), want[0][-2:]) <= TIGHT


def test_a_step_without_outputs_counts(model, backends):
    backend = backends(model(), kv_type="f32")
    seq = backend.open()
    want = run(backend, seq, IDS)
    backend.cut(seq, 0)
    assert step(backend, Chunk(seq, IDS[:-1], 0)).shape == (0, tiny.VOCAB)
    assert off(step(backend, Chunk(seq, IDS[-1:], 1)), want[-1:]) <= TIGHT


def test_logits_may_be_any_memory(model, backends):
    """Rows of a larger array, in either order of memory."""
    backend = backends(model(), kv_type="f32")
    seq = backend.open()
    want = run(backend, seq, IDS[:5])
    for room in (np.empty((5, 2 * tiny.VOCAB), np.float32)[:, ::2], np.empty((5, tiny.VOCAB), np.float32, "F")):
        backend.cut(seq, 0)
        backend.step([Chunk(seq, IDS[:5], 5)], room)
        assert (room == want).all()


# Rolling back


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_cut_and_continued_is_as_if_nothing_had_been(model, backends, arch):
    backend = backends(model(arch), n_ctx=100, n_batch=20, n_seq=1, kv_type="f32")
    seq, rng, held = backend.open(), np.random.default_rng(0), []
    want, outcomes = {}, set()
    for _ in range(60):
        if len(held) > 80 or rng.random() < 0.4:
            length = min(80, int(rng.integers(max(0, len(held) - 25), len(held) + 1)))
            kept = backend.cut(seq, length)
            assert kept in (length, 0) and kept == backend.length(seq)
            outcomes.add(kept == length)
            held = held[:kept]
        new = [int(i) for i in rng.integers(0, tiny.VOCAB, rng.integers(1, 21))]
        held = held + new
        want[tuple(held)] = step(backend, Chunk(seq, new, 1))[0]
    fresh = backends(model(arch), n_ctx=100, n_batch=100, kv_type="f32")
    for ids, got in want.items():
        seq = fresh.open()
        assert off(got, run(fresh, seq, list(ids))[-1]) <= TIGHT
        fresh.close_sequence(seq)
    assert outcomes == ({True} if arch == "llama" else {True, False})


def test_a_ring_that_has_forgotten_says_so(model, backends):
    backend = backends(model("gemma3"), n_ctx=200, n_batch=16)
    seq = backend.open()
    run(backend, seq, (IDS * 5)[:190], [16])
    assert backend.cut(seq, 190) == 190 and backend.cut(seq, 189) == 189
    assert backend.cut(seq, 20) == 0 == backend.length(seq)


def test_a_closed_sequence_leaves_nothing_behind(model, backends):
    for arch in ("llama", "gemma3"):
        backend = backends(model(arch), n_ctx=64, n_seq=2, kv_type="f32")
        want = run(backend, backend.open(), IDS)
        other = backend.open()
        run(backend, other, IDS[::-1])
        backend.close_sequence(other)
        assert backend.open() == other and backend.length(other) == 0
        assert (run(backend, other, IDS) == want).all()


# Threads and memory


@pytest.mark.parametrize("kind", ["F32", "Q4_K", "Q8_0"])
@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_the_number_of_threads_changes_no_bit(model, backends, kind, arch):
    pieces = [20, 1, 1, 7, 16]
    each = [backends(model(arch, kind), n_threads=n) for n in (1, 2, 3)]
    one, *others = (run(backend, backend.open(), IDS, pieces) for backend in each)
    assert np.isfinite(one).all()
    for other in others:
        assert (other == one).all()


@pytest.mark.parametrize("kind, kv_type", [("F16", "f32"), ("Q4_K", "f16"), ("Q6_K", "q8_0"), ("Q4_1", "f16")])
@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_neither_steps_nor_others_nor_threads_change_a_bit_if_so_asked(model, backends, kind, kv_type, arch):
    each = [backends(model(arch, kind), n_threads=n, n_seq=4, kv_type=kv_type, deterministic=True) for n in (1, 2, 3)]
    want = run(each[0], each[0].open(), IDS)
    assert np.isfinite(want).all()
    for backend in each:
        seq, *others = [backend.open() for _ in range(3)]
        for pieces in ([1], [3], [7], [16], [20, 1, 24]):
            backend.cut(seq, 0)
            assert (run(backend, seq, IDS, pieces) == want).all(), pieces
        backend.cut(seq, 0)
        step(backend, Chunk(others[0], IDS[:5], 1), Chunk(seq, IDS[:2], 2))
        beside = step(backend, Chunk(others[0], IDS[5:9], 4), Chunk(seq, IDS[2:], 43), Chunk(others[1], IDS[:17], 1))
        assert (beside[4:47] == want[2:]).all()


def test_a_run_repeated_changes_no_bit(model, backends):
    backend = backends(model("qwen3", "Q4_K"), n_threads=2)
    seq = backend.open()
    want = run(backend, seq, IDS, ODD_PIECES)
    for _ in range(20):
        backend.cut(seq, 0)
        assert (run(backend, seq, IDS, ODD_PIECES) == want).all()


def test_windows_take_no_more_memory_in_a_larger_context(model, backends):
    pools = [backends(model("gemma3"), n_ctx=n_ctx, n_batch=16)._cache.pools for n_ctx in (64, 256)]
    windows = {op.attrs["layer"]: op.attrs["window"] for op in model("gemma3").plan.ops if op.kind == "attend"}
    for layer, window in windows.items():
        small, large = (pool[layer].nbytes for pool in pools)
        assert large == small if window else large == 4 * small


def test_steps_of_one_token_and_others_may_have_threads_of_their_own(model, backends):
    """With the same bits, and no more of the workers at work than they are to have."""
    of = model("llama", "Q4_K")
    usual, other = backends(of, n_threads=3), backends(of, n_threads=3)
    other.use(decode=1, prefill=2)
    for pieces, working in (([1], 1), ([4], 2)):
        before = np.array(other._workers.times())
        want, got = (run(backend, backend.open(), list(range(8)), pieces) for backend in (usual, other))
        assert (got == want).all()
        ran = (other._workers.times() - before)[:, 0]
        assert not ran[working:].any()
        for backend in (usual, other):
            backend.close_sequence(0)


def test_close_ends_the_threads(model):
    before = set(threading.enumerate())
    backend = CpuBackend(model().plan, 32, 3, "f16", 32, 1)
    started = set(threading.enumerate()) - before
    backend.close()
    for thread in started:
        thread.join(5)
    assert len(started) == 2 and not any(thread.is_alive() for thread in started)


# Errors


def test_a_sequence_that_does_not_fit_into_memory_is_refused(model, backends, monkeypatch):
    backend = backends(model())
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(BackendError, match=r"a sequence of 64 tokens needs 0.0 MB and 0.0 MB are available"):
        backend.open()
    monkeypatch.undo()
    assert backend.open() == 0


@pytest.mark.parametrize("length", [-1, 6])
def test_cuts_outside_of_the_sequence_are_refused(model, backends, length):
    backend = backends(model())
    seq = backend.open()
    run(backend, seq, IDS[:5])
    with pytest.raises(RequestError, match=f"a sequence of 5 tokens cannot be cut to {length}"):
        backend.cut(seq, length)
    assert backend.length(seq) == 5


def test_weights_that_are_not_finite_give_such_logits(tmp_path, backends):
    def edit(keys, tensors):
        tensors["blk.0.ffn_up.weight"][0][3, 5] = np.nan

    for kind in ("F32", {"ffn_up": "F32", "": "Q8_0"}):
        path = tiny.write(tmp_path / "m.gguf", "llama", kind, edit=edit)
        backend = backends(Model(trace(gguf.open(path))))
        assert not np.isfinite(run(backend, backend.open(), IDS[:3])).any()


@pytest.mark.parametrize(("kind", "block"), [("Q4_0", 2), ("Q8_0", 1), ("Q4_K", 2), ("Q6_K", 0)])
def test_an_infinite_scale_makes_the_same_logits_not_finite_as_in_the_reference(tmp_path, backends, kind, block):
    """Of blocks that two turns of a dot product share, too; which of NaN and the infinities it is, may differ."""
    odd = {"dim": 96} if GgmlType[kind].block == 32 else {"dim": 768}
    path = tiny.write(tmp_path / "m.gguf", "llama", {"output": kind, "": "F32"}, layers=1, **odd)
    with gguf.open(path) as file:
        output = file.tensors["output.weight"]
        scale = output.offset + 7 * output.nbytes // tiny.VOCAB + block * output.type.bytes + blocks.F16_AT[kind][0]
    with open(path, "r+b") as raw:
        raw.seek(scale)
        raw.write(np.float16(np.inf).tobytes())
    broken = Model(trace(gguf.open(path)))
    backend = backends(broken, n_seq=2)
    for count in (1, 5):
        found = run(backend, backend.open(), IDS[:count])
        assert np.flatnonzero(~np.isfinite(found).all(0)).tolist() == [7]
        assert np.array_equal(np.isfinite(found), np.isfinite(broken.logits(IDS[:count])))


def test_batch_is_bounded_by_the_context(model, backends):
    assert backends(model(), n_ctx=20, n_batch=512).n_batch == 20
