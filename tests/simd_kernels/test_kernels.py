"""The table of kernels: complete for what records and layouts name."""

from edgeinfer.formats.ggml import GgmlType
from edgeinfer.simd_kernels import kernels, layout


def test_every_type_has_its_kernels_and_a_tile():
    names = kernels.table()
    for kind in GgmlType:
        if kind.computable:
            assert {
                f"dot.{kind.name}",
                f"unpack.{kind.name}",
                f"panel.{kind.name}",
                layout.tile_name(kind.name),
            } <= set(names)


def test_every_kv_type_has_store_and_attend():
    for kv_type in layout.KV_BYTES:
        assert {f"store.{kv_type}", f"attend.{kv_type}"} <= set(kernels.table())
