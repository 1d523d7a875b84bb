"""What is done at SIGBUS, by which Linux tells that a page of a mapped file is behind the file's end or cannot be read.

The whole map is replaced by zeros, which is one call of the system and needs no memory, it is noted that this happened,
and the instruction is tried again: a step ends with numbers that nobody uses.  Who handled SIGBUS before is put back in
place at any other fault, and gets that one as the instruction is tried again.
"""

from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.record import GUARD
from edgeinfer.simd_kernels.values import I32, I64, Value

SIGBUS = 7  # these are Linux's, of x86-64 and aarch64
CODE, ADDRESS = 8, 16  # places in siginfo_t; a code of 0 or less: some process sent the signal
READABLE, INSTEAD = 1, 0x32  # of mmap: PROT_READ; MAP_PRIVATE, MAP_FIXED and MAP_ANONYMOUS


def bus_error(e: Emitter, signal: Value, info: Value, context: Value) -> None:
    """A handler as sigaction takes it.  Called with signal 0 it is told where its record is."""
    own, told = e.own(), e.narrow(signal, I32).equals(0)
    with e.when(told):
        e.store(info, own)
    with e.when(told ^ 1):
        r = GUARD.read(e, e.load(own, I64))
        at, sent = e.load(info + ADDRESS, I64), e.load(info + CODE, I32) <= 0
        found = e.var(I64)  # where the map is, again
        with e.loop(r.maps, r.maps_end, 24) as entry:
            start, size = e.field(entry, 0), e.field(entry, 1)
            with e.when((start <= at) & (at < start + size) & (sent ^ 1)):
                e.store(e.const(I64, 1), entry + 16)
                found.set(e.call(r.mmap, start, size, READABLE, INSTEAD, -1, 0))
        with e.when(found.get() <= 0):  # none of ours, or the system refused
            e.call(r.sigaction, SIGBUS, r.before, 0)
            with e.when(sent):
                e.call(r.throw, SIGBUS)
