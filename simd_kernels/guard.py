"""Has the process outlive that a mapped file is cut short while kernels read it, where that is known how: on Linux.

The handler of SIGBUS is a kernel (bus_error.py), for nothing in Python could act at such a moment.  It is put in place
once, and gives faults that are not of `MAPS` to whoever was there before.  Who comes later, such as a faulthandler that
is enabled then, takes its place."""

import ctypes
import sys
import threading
from collections.abc import Mapping

from edgeinfer.formats.mapped import MAPS
from edgeinfer.simd_kernels import cpu
from edgeinfer.simd_kernels.numbers import Numbers
from edgeinfer.simd_kernels.record import GUARD

KERNELS = ("bus_error",) if sys.platform == "linux" and cpu.machine() in ("x86_64", "aarch64") else ()
SIGBUS, WITH_ADDRESS, OWN_STACK = 7, 4, 0x08000000  # SA_SIGINFO and SA_ONSTACK, of Linux

_lock = threading.Lock()
_kept: list[object] = []  # what the handler looks at, once it is in place


class _Action(ctypes.Structure):
    """struct sigaction, of glibc and musl."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def guard(kernels: Mapping[str, int]) -> None:
    """Put the handler in place, if it is not; kernels: the addresses of `KERNELS`."""
    with _lock:
        if _kept or not KERNELS:
            return
        libc, before, record = ctypes.CDLL(None), _Action(), Numbers(len(GUARD.names))
        libc.sigaction(SIGBUS, None, ctypes.byref(before))
        calls = {"mmap": libc.mmap, "sigaction": libc.sigaction, "throw": getattr(libc, "raise")}
        places = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in calls.items()}
        start = MAPS.ctypes.data
        numbers = GUARD.write(maps=start, maps_end=start + MAPS.nbytes, before=ctypes.addressof(before), **places)
        record.put(0, numbers)
        handler = kernels[KERNELS[0]]
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(handler)(0, record.address, 0)
        _kept.extend([before, record])
        libc.sigaction(SIGBUS, ctypes.byref(_Action(handler, flags=WITH_ADDRESS | OWN_STACK)), None)
