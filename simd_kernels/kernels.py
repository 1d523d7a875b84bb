"""The table of all kernels: a name, how many arguments it takes, and the Python function that writes it."""

from collections.abc import Callable
from itertools import combinations

from edgeinfer.simd_kernels import (
    activation,
    arithmetic,
    attention,
    bus_error,
    executor,
    experts,
    hadamard,
    indexer,
    kv,
    linear,
    norms,
    probe,
    recurrence,
    rope,
    rows,
    screen,
    select,
    tile,
)
from edgeinfer.simd_kernels.layout import ATTENTION_EXTRAS, KV_BYTES, OTHER_EXTRAS, attend_name
from edgeinfer.simd_kernels.quants import floats, grids, k_quants, legacy, levels, low_bits

Body = Callable[..., None]
QUANTS = {q.name: q for q in (*legacy.TYPES, *k_quants.TYPES, *low_bits.TYPES, *levels.TYPES, *grids.TYPES)}
FLOATS = {f.name: f for f in floats.TYPES}
TILES = {tile.tile_of(name) for name in QUANTS}


def subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All choices of some of these names, none and all among them."""
    return [chosen for count in range(len(names) + 1) for chosen in combinations(names, count)]


def table() -> dict[str, tuple[int, Body]]:
    """name -> (arguments, body)"""
    operations = {
        **arithmetic.KERNELS,
        "temper": arithmetic.temper,
        "mul.groups": arithmetic.mul_groups,
        "norm": norms.norm,
        "layer_norm": norms.layer_norm,
        "l2_norm": norms.l2_norm,
        "softmax": norms.softmax,
        "sinkhorn": experts.sinkhorn,
        "dot": norms.dot,
        "sparsify": norms.sparsify,
        "outputs": rows.outputs,
        "pool": rows.pool,
        "copy": rows.copy,
        "quantise": activation.quantise(False),
        "quantise.fine": activation.quantise(True),
        "quantise.rows": activation.quantise_rows,
        "rope.adjacent": rope.rope(True),
        "rope.halves": rope.rope(False),
        "rotate": hadamard.rotate,
        **{f"route.{gate}": experts.route(gate) for gate in experts.GATES},
        **{f"assign.{gate}": experts.assign(gate) for gate in experts.GATES},
        "expert_linear.quantised": experts.expert_linear(True),
        "expert_linear.float": experts.expert_linear(False),
        "mix": experts.mix,
        "pick": experts.pick,
        **recurrence.KERNELS,
        "linear.quantised": linear.linear(True),
        "linear.fine": linear.linear(True, fine=True),
        "linear.float": linear.linear(False),
        "embed.quantised": linear.embed(True),
        "embed.float": linear.embed(False),
        "select.scan": select.scan,
        "select.pick": select.pick,
        "screen.bounds": screen.bounds,
        "screen.view": screen.view,
        "screen.widen": screen.widen,
        **{f"rate.{name}": indexer.Rate(name).body for name in KV_BYTES},
        **{f"rate.each.{name}": indexer.Rate(name, each=True).body for name in KV_BYTES},
        "choose": indexer.choose,
        "choose.blocks": indexer.choose_blocks,
        "choose.pools": indexer.choose_pools,
        **{f"store.{name}": kv.Store(name).body for name in KV_BYTES},
        **{
            attend_name(name, extras): attention.Attend(name, extras).body
            for name in KV_BYTES
            for extras in (*subsets(ATTENTION_EXTRAS), *OTHER_EXTRAS)
        },
    }
    types = {**QUANTS, **FLOATS}
    return {
        **{name: (4, body) for name, body in operations.items()},
        **{f"dot.{name}": (6, t.dot) for name, t in types.items()},
        **{f"dot.fine.{name}": (6, t.dot_fine) for name, t in QUANTS.items()},
        **{f"few.{name}": (10, t.few) for name, t in types.items()},
        **{f"few.fine.{name}": (10, t.few_fine) for name, t in QUANTS.items()},
        **{f"unpack.{name}": (5, t.unpack) for name, t in types.items()},
        **{f"panel.{name}": (6, t.panel) for name, t in types.items()},
        **{t.name: (16, t.body) for t in TILES},
        "tile.float": (14, tile.tile_float),
        "run": (7, executor.run),
        "bus_error": (3, bus_error.bus_error),
        "probe.read": (4, probe.read),
        "probe.dots": (4, probe.dots),
    }
