"""The table of all kernels: a name, how many arguments it takes, and the Python function that writes it."""

from collections.abc import Callable

from edgeinfer.simd_kernels import attention, executor, linear, probe, rows, tile
from edgeinfer.simd_kernels.layout import KV_BYTES
from edgeinfer.simd_kernels.quants import floats, grids, k_quants, legacy, levels, low_bits

Body = Callable[..., None]
QUANTS = {q.name: q for q in (*legacy.TYPES, *k_quants.TYPES, *low_bits.TYPES, *levels.TYPES, *grids.TYPES)}
FLOATS = {f.name: f for f in floats.TYPES}
TILES = [tile.Tile(group, wide) for group in (16, 32) for wide in (False, True)]


def table() -> dict[str, tuple[int, Body]]:
    """name -> (arguments, body)"""
    operations = {
        "norm": rows.norm,
        "gated.silu": rows.silu_gated,
        "gated.gelu": rows.gelu_gated,
        "add": rows.add,
        "softcap": rows.softcap,
        "outputs": rows.outputs,
        "quantise": rows.quantise,
        "rope.adjacent": rows.rope(True),
        "rope.halves": rows.rope(False),
        "linear.quantised": linear.linear(True),
        "linear.float": linear.linear(False),
        "embed.quantised": linear.embed(True),
        "embed.float": linear.embed(False),
        **{f"store.{kv}": attention.Store(kv).body for kv in KV_BYTES},
        **{f"attend.{kv}": attention.Attend(kv).body for kv in KV_BYTES},
    }
    types = {**QUANTS, **FLOATS}
    return {
        **{name: (4, body) for name, body in operations.items()},
        **{f"dot.{name}": (6, t.dot) for name, t in types.items()},
        **{f"unpack.{name}": (5, t.unpack) for name, t in types.items()},
        **{t.name: (8, t.body) for t in TILES},
        "tile.float": (5, tile.tile_float),
        "transpose": (4, tile.transpose),
        "run": (6, executor.run),
        "probe.read": (3, probe.read),
        "probe.dots": (2, probe.dots),
    }
