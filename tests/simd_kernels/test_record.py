"""Records: what Python writes is what kernels read."""

import numpy as np
import pytest

from edgeinfer.simd_kernels import record
from edgeinfer.simd_kernels.values import F32
from tests.simd_kernels.harness import call

FORM = record.Record("first", "second_f32", "third")


def test_fields_are_read_as_they_are_written(kernels):
    numbers = np.array(FORM.write(third=-7, first=2**62, second_f32=-1.5))
    out, real = np.zeros(2, np.int64), np.zeros(1, np.float32)

    def body(e, at, whole, single):
        r = FORM.read(e, at)
        e.store(r.first, whole)
        e.store(r.third, whole + 8)
        e.store(r.second_f32 * e.const(F32, 2.0), single)

    call(kernels.build(3, body), numbers, out, real)
    assert (out.tolist(), real.tolist()) == ([2**62, -7], [-3.0])


def test_all_fields_and_no_others_must_be_given():
    with pytest.raises(ValueError, match="second_f32"):
        FORM.write(first=1, third=2)
    with pytest.raises(ValueError, match="'x'"):
        FORM.write(first=1, second_f32=0, third=2, x=3)


def test_a_record_has_room():
    record.Record(*map(str, range(record.OP_FIELDS)))
    with pytest.raises(ValueError, match="too many fields"):
        record.Record(*map(str, range(record.OP_FIELDS + 1)))


def test_operations_begin_alike():
    forms = [f for f in vars(record).values() if isinstance(f, record.Record) and f not in (record.STEP, record.GUARD)]
    assert len(forms) > 5 and all(f.names[: len(record.HEAD)] == record.HEAD for f in forms)
