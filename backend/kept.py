"""Answers that take long, kept for a moment, and asked for once at a time: by scrapes of metrics, by pages."""

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


class KeptByName(Generic[T]):
    """Answers to several questions, each with a name of its own. Threads may share it.

    At most `most` are kept, those that were asked for last: names come and go, and what nobody asks for any more
    must not stay for the life of the process.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._lock = threading.Lock()
        self._answers: dict[str, Kept[T]] = {}
        """The one that was asked for last comes last."""

    def get(self, name: str, read: Callable[[], T]) -> T:
        """Return the answer of that name, at most so many seconds old. Raises what the reading raises, and then
        keeps nothing."""
        with self._lock:
            answer = self._answers.pop(name, None) or Kept(self._seconds)
            self._answers[name] = answer
            while len(self._answers) > self._most:
                del self._answers[next(iter(self._answers))]
        try:
            return answer.get(read)
        except Exception:
            with self._lock:
                if self._answers.get(name) is answer:
                    del self._answers[name]
            raise
