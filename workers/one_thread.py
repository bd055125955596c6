"""Work that is begun now and then in a thread of its own, never by two of them at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class OneThread:
    """`close` lets go of what the work holds: once, after `end` was called and no work is under way."""

    def __init__(self, name: str, close: Callable[[], None] = lambda: None) -> None:
        self._name, self._close = name, close
        self._working = threading.Lock()
        self._is_to_end = self._is_closed = False

    @property
    def is_working(self) -> bool:
        """Whether work is under way."""
        return self._working.locked()

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin it; False if some is under way. Raises RuntimeError if no thread can be had now."""
        if self._is_to_end or not self._working.acquire(blocking=False):
            return False
        try:
            # A daemon: a process that ends shall not wait.
            threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True).start()
        except RuntimeError:
            self._working.release()
            raise
        return True

    def end(self) -> None:
        """No more work; what is under way ends by itself."""
        self._is_to_end = True
        self._close_if_idle()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._working.release()
            # Looked at after the release, as `end` looks at the lock after it has said so: one of them closes.
            if self._is_to_end:
                self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._working.acquire(blocking=False):
            try:
                if not self._is_closed:
                    self._is_closed = True
                    self._close()
            finally:
                self._working.release()
