"""Work that is started now and then in a separate thread, never twice at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class OneThread:
    """Runner of the work; `close` releases resources once, after `end` was called and no work is in progress."""

    def __init__(self, name: str, close: Callable[[], None] = lambda: None) -> None:
        self._name, self._close = name, close
        self._working = threading.Lock()
        self._is_to_end = self._is_closed = False

    @property
    def is_working(self) -> bool:
        """Return whether work is in progress."""
        return self._working.locked()

    def begin(self, work: Callable[[], None]) -> bool:
        """Start the work; False if some is in progress. Raises RuntimeError if no thread can be started now."""
        if self._is_to_end or not self._working.acquire(blocking=False):
            return False
        try:
            # A daemon: a process that ends must not wait.
            threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True).start()
        except RuntimeError:
            self._working.release()
            raise
        return True

    def end(self) -> None:
        """Accept no more work; work in progress ends by itself."""
        self._is_to_end = True
        self._close_if_idle()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._working.release()
            # Checked after the release, as `end` checks the lock after setting the flag: one of them closes.
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
