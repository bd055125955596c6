"""An answer that takes long, kept for a moment, and asked for once at a time: by scrapes of metrics, by pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Whoever asks while somebody else does waits for the same answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def get(self, read: Callable[[], T]) -> T:
        """The answer, at most so many seconds old. Raises what the reading raises, which is not kept."""
        asked_at = time.monotonic()
        with self._lock:
            # One that was begun after this was asked for is as good as a new one.
            if self._answer is not None and (kept := self._answer)[0] + self._seconds >= asked_at:
                return kept[1]
            begun = time.monotonic()
            self._answer = (begun, read())
            return self._answer[1]
