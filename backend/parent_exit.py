"""Bind a process's life to its parent's: it never outlives the parent, however that ends."""

from __future__ import annotations

import ctypes
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def exit_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this signal to the calling process when the thread that started it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
