"""A lock for a catalog: many readers, some of which parse for long, and one thread that changes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CatalogLock:
    """Readers and parsers share the catalog; a change has it exclusively.

    A change waits for parsers, and later parsers wait for the change; plain readers continue meanwhile. While
    nobody parses, a change goes before new readers.
    """

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._reading = self._parsing = self._waiting = 0
        self._writing = False

    def try_read(self) -> bool:
        """Take the lock for reading if that needs no waiting; return whether it was taken.

        `release` releases it.
        """
        with self._free:
            if self._closed_to_readers():
                return False
            self._reading += 1
            return True

    def release(self) -> None:
        """Release what `try_read` took."""
        with self._free:
            self._reading -= 1
            self._free.notify_all()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Take the lock for a quick read."""
        with self._free:
            self._free.wait_for(lambda: not self._closed_to_readers())
            self._reading += 1
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Take the lock for reads that may parse or compare schemas."""
        with self._free:
            self._free.wait_for(lambda: not self._writing and not self._waiting)
            self._parsing += 1
        try:
            yield
        finally:
            with self._free:
                self._parsing -= 1
                self._free.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the lock for a change; a holder of the lock must not call this."""
        with self._free:
            self._waiting += 1
            try:
                self._free.wait_for(lambda: not (self._writing or self._reading or self._parsing))
            finally:
                self._waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._free:
                self._writing = False
                self._free.notify_all()

    def _closed_to_readers(self) -> bool:
        return self._writing or (self._waiting > 0 and not self._parsing)
