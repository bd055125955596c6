"""What many look at in the same second, read once for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request

_SECONDS = 1.0


class _Kept:
    """One answer, and when it was read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read_at = float("-inf")
        self.value: Mapping[str, Any] = {}


def kept(request: Request, name: str, read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What `read` gives, at most a second old; who asks while it is being read waits for that. It must be the same
    for all viewers. What `read` raises is raised, and nothing is kept.
    """
    state = request.app.state
    if not hasattr(state, "kept"):
        state.kept = {}
    entry: _Kept = state.kept.setdefault(name, _Kept())
    with entry.lock:
        if time.monotonic() > entry.read_at + _SECONDS:
            try:
                entry.value = read()
            except Exception:
                state.kept.pop(name, None)  # names that nothing has are not to add up
                raise
            entry.read_at = time.monotonic()
        return entry.value
