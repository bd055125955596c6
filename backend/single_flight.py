"""Short-lived caches of slow answers, for metrics scrapes and pages; each answer is computed once at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class CachedAnswer(Generic[T]):
    """Cached answer to one question; concurrent callers share one read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def get(self, read: Callable[[], T]) -> T:
        """Return the answer, at most `seconds` old; calls `read` if there is none. A failed read is not cached."""
        asked_at = time.monotonic()
        with self._lock:
            # An answer whose computation began after this call is as good as a new one.
            if self._answer is not None and (kept := self._answer)[0] + self._seconds >= asked_at:
                return kept[1]
            begun = time.monotonic()
            self._answer = (begun, read())
            return self._answer[1]


class CachedAnswers(Generic[T]):
    """Cached answers to several named questions. Safe to share between threads.

    At most `most` answers are kept, the least recently used go first: names come and go, and answers that nobody
    requests any more must not stay for the life of the process.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._lock = threading.Lock()
        self._answers: dict[str, CachedAnswer[T]] = {}
        """Answers by name, the most recently used last."""

    def get(self, name: str, read: Callable[[], T]) -> T:
        """Return the answer of that name, at most `seconds` old. Errors of `read` are raised and not cached."""
        with self._lock:
            answer = self._answers.pop(name, None) or CachedAnswer(self._seconds)
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
