"""Sizes and layouts that kernels and those who call them must agree on.  Cheap to import: nothing here needs LLVM."""

from collections.abc import Iterable

import numpy as np

# Quantised activations (activation.py): for each 256 columns 256 codes, 8 scales f32, 8 sums over 32 and 16 sums over
# 16 codes f32, and where they are fine 256 low codes; many rows in tiles instead, which take no more.

SPAN = 256  # columns: 8 groups of 32, the lanes of the sums of `dot` and `few`
SPAN_BYTES = SPAN + 32 + 32 + 64
FEW = 16  # most rows of activations that `few` takes at a time; for more, panels of weights pay

SIXTEENS = (
    "Q2_K",
    "Q3_K",
    "Q6_K",
    "IQ1_M",
    "IQ2_XS",
    "IQ2_S",
    "NVFP4",
)  # types whose scales cover 16 weights; all others 32
MINIMUMS = (
    "Q4_1",
    "Q5_1",
    "Q2_K",
    "Q4_K",
    "Q5_K",
    "IQ1_S",
)  # types with minimums; others have an offset for all weights
# Types of 16 whose scales are whole numbers times one of the block; "folded": codes times these fit a byte.
WHOLE_SCALES = {"whole": ("Q6_K", "IQ1_M", "IQ2_XS", "IQ2_S"), "folded": ("Q2_K", "Q3_K")}
# Types by how large their codes can be, less the offset, as register tiles tell them apart; all others up to 64.
CODES_TO = {
    16: (
        *("Q1_0", "Q2_0", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "IQ1_S", "IQ1_M", "IQ3_S"),
        *("TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
    ),
    32: ("Q5_1", "Q5_K", "Q6_K"),
    128: ("Q8_0", "IQ4_NL", "IQ4_XS"),
}
FLOATS = ("F64", "F32", "F16", "BF16")  # types that take float activations


def up(number: int, step: int) -> int:
    """`number` rounded up to a multiple of `step`."""
    return (number + step - 1) // step * step


def aligned(size: int, border: int = 4096) -> np.ndarray:
    """uint8[size], zero, starting at a multiple of `border`; the system commits its pages when they are first
    written."""
    memory = np.zeros(size + border, np.uint8)
    start = -memory.ctypes.data % border
    return memory[start : start + size]


def activation_bytes(width: int, fine: bool = False) -> int:
    """Bytes of a quantised row."""
    return up(width, SPAN) // SPAN * (SPAN_BYTES + (SPAN if fine else 0))


def group(type_name: str) -> int:
    """Weights that share a scale."""
    return 16 if type_name in SIXTEENS else 32


def codes_to(type_name: str) -> int:
    """How large codes can be, less the offset: 16, 32, 64 or 128."""
    return next((size for size, names in CODES_TO.items() if type_name in names), 64)


def tile_name(type_name: str) -> str:
    """The register tile for weights of this type."""
    if type_name in FLOATS:
        return "tile.float"
    words = [word for word, types in {"minimums": MINIMUMS, **WHOLE_SCALES}.items() if type_name in types]
    return ".".join(["tile", str(group(type_name)), *words, "to", str(codes_to(type_name))])


# Scratch of a worker: unpacked rows and the panel of the matrix multiply, then its sums; an attention tile's state;
# an embedding's codes; what the choice of experts notes of each of them and of each group, 16 bytes at most.

DEPTH = 512  # columns of a panel of codes
FLOAT_DEPTH = 128  # columns of a panel of floats: the same bytes
PANEL_AT = 16 * (DEPTH + DEPTH // 2)  # bytes before the panel: as many unpacked rows as a register has lanes
SPARE = 128 * 1024  # bytes before the sums
BIAS_AT = SPARE - 256  # bytes before the biases of a panel's rows

# The KV cache (kv.py has the picture).

BLOCK = 16  # tokens of a block
REACH = 128  # positions from which on keys have the same bias
BIASES = 2 * (REACH + BLOCK) + 1  # of a head, with a block on either side of those that are the same
HEAD_ROOM = 576  # most dims of a head: a latent vector of 512, and 64 that turn
CHUNK = 256  # positions, from a multiple of it on, whose scores are weighed together
SPLIT = 16  # tokens of a step up to which workers share the chunks of a row
BAND = 96  # query rows that go through a chunk while it is in the cache
FEW_QUERIES, QUERIES = 4, {16: 6, 8: 6, 4: 4, 1: 4}  # rows at a time: where there are few, and else by the tier's lanes
VECTORS = {16: 4, 8: 1, 4: 1, 1: 1}  # of 16 floats, side by side in registers while rows pass
PANEL = 64  # dims or values that are converted together
ROW = 64 + HEAD_ROOM * 4  # bytes: room for what attention keeps of a row, be it query, scores or outputs
BAND_BYTES = 4 * PANEL * 16 * max(VECTORS.values()) + BAND * (4 * ROW + 64)
KV_BYTES = {"f32": 4, "f16": 2, "q8_0": 1}  # of a number, without scales


# What else may happen to scores; a kernel has those its name lists.
ATTENTION_EXTRAS = ("cap", "slopes", "sinks", "chunk")
OTHER_EXTRAS = (("biases",), ("seen",), ("sinks", "seen"), ("logs",), ("sinks", "logs"), ("seen", "logs"))
EXTRAS = (*ATTENTION_EXTRAS, "biases", "seen", "logs")


def attend_name(kv_type: str, extras: Iterable[str]) -> str:
    """The kernel of attention over this kind of KV with these extras."""
    return ".".join(["attend", kv_type, *(extra for extra in EXTRAS if extra in extras)])


def tables_name(group: tuple[int, int]) -> str:
    """What the addresses of block tables by row are called, by window and stride."""
    return "tables{}.{}".format(*group)


def kept_name(stride: int) -> str:
    """What numbers by row are called: of the last position up to a row's own of which keys are kept."""
    return "positions" if stride == 1 else f"kept{stride}"


def scratch_bytes(tokens: int, panel_rows: int, widest: int) -> int:
    """Memory a worker needs for steps of so many tokens and rows of so many weights."""
    sums = 4 * panel_rows * up(tokens, 8)
    return up(max(SPARE + sums, 16 * widest, BAND_BYTES), 4096)


FEW_SUMS = 8192  # bytes of sums that `few` needs


def expert_scratch(experts: int, pairs: int, cols: int, chunk: int) -> int:
    """Memory a worker needs for linear layers of so many pairs of a token and its expert: sums, the pairs by expert,
    a few rows of activations and of outputs."""
    return FEW_SUMS + 8 * (1 + experts + pairs) + FEW * (up(4 * cols, 64) + SPAN_BYTES) + FEW * 4 * chunk + 64


def parts_bytes(heads: int, value_dim: int, n_ctx: int) -> int:
    """Memory for what workers note of a chunk for each other."""
    return SPLIT * heads * chunk_count(n_ctx) * (64 + 4 * up(value_dim, 32))


def chunk_count(n_ctx: int) -> int:
    return up(n_ctx, CHUNK) // CHUNK


def block_bytes(kv_type: str, key_dim: int, value_dim: int) -> tuple[int, int]:
    """Bytes of the keys and of the values of one KV head in a block."""
    size, padded = KV_BYTES[kv_type], up(value_dim, 32)
    if kv_type == "q8_0":
        return BLOCK * up(key_dim, 32) // 32 * 34, BLOCK * padded // 32 * 34
    return BLOCK * key_dim * size, BLOCK * padded * size


def rotation(kv_type: str, head_dim: int) -> int:
    """How many dims of a head are rotated together (hadamard.py) before they are cached: the largest power of two that
    divides it, and 0 where that is small or the cache holds floats."""
    block = head_dim & -head_dim
    return block if kv_type == "q8_0" and block >= 16 else 0


# Recurrent states (recurrence.py).

LANES = 16  # columns of a block of states


def state_bytes(units: int, size: int, depth: int) -> int:
    """Of `units` of `size` columns with `depth` numbers each."""
    return 4 * units * up(size, LANES) * depth


# Where workers meet (executor.py), each number on a cache line of its own: workers that have arrived at a barrier, how
# often all have, and the number of the present run; the address of a C function without arguments that gives the core
# to someone else, 0 where there is none, for when a worker waits long, and of a profile, or 0; of each worker, on a
# cache line of its own, ticks in all runs, ticks waited, the number of its run, whether it does again what others have
# begun, and how many runs it has ended.

SYNC_ARRIVED, SYNC_ROUND, SYNC_RUN, SYNC_STEP_ASIDE, SYNC_TRACE, SYNC_TIMES = 0, 128, 256, 384, 392, 512
OWN_RUN, OWN_AGAIN, OWN_RUNS = 2, 3, 4  # places on a worker's line


def sync_bytes(threads: int) -> int:
    """Of the memory that so many workers meet in."""
    return SYNC_TIMES + 64 * threads


def dots(lanes: int) -> int:
    """Independent sums that the kernel that measures products (probe.py) adds to: enough to hide the instruction's
    latency, as many as there are registers for."""
    return 24 if lanes == 16 else 12


# The output layer (select.py, screen.py).

GROUP = 64  # scores whose largest is kept
DIRECTIONS = 14  # in which activations are known to lie mostly; two more numbers fill the 16 of a block
VIEW_ROWS = 16  # of a panel of the view


DIRECTION_BYTES = DIRECTIONS * (32 + 4 + 4)  # of 32 columns: codes, sums of these times -128, scales


def panel_bytes(cols: int) -> int:
    """Of 16 rows of the view."""
    return VIEW_ROWS * (8 + cols // 32 * 17 + 16)


def view_scratch(cols: int) -> int:
    """Memory a worker needs to make the view of rows of so many weights: four as floats, their codes and scales (twice
    as much of these as groups of 32 take), rests and scales of 16, and products of these with directions."""
    return cols * (16 + 2 + 16 + 4) + DIRECTIONS * 64
