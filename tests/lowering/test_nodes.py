"""How weights are cut for workers."""

from types import SimpleNamespace

import pytest

from edgeinfer.lowering.nodes import CHUNK_BYTES, Nodes


@pytest.mark.parametrize(
    "rows, row_bytes, threads, chunk",
    [
        (2048, 440, 2, 512),  # half a worker's share
        (256, 440, 2, 128),  # all of it, as half would be too little
        (192, 360, 2, 96),
        (192, 360, 1, 96),
        (100, 4096, 1, 48),  # whole turns of 8 rows
        (10, 440, 4, 3),
        (1000, 2 * CHUNK_BYTES, 2, 1),
        (262144, 680, 2, 768),
    ],
)
def test_a_share_is_cut_into_equal_parts(rows, row_bytes, threads, chunk):
    assert Nodes.chunk(SimpleNamespace(threads=threads), rows, row_bytes) == chunk
    assert chunk == 1 or chunk * row_bytes <= CHUNK_BYTES
