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
        self._looking = self._parsing = self._waiting = 0
        self._changing = False

    def look_at_once(self) -> bool:
        """Take the lock for reading if that needs no waiting; return whether it was taken.

        `looked` releases it.
        """
        with self._free:
            if self._closed_to_lookers():
                return False
            self._looking += 1
            return True

    def looked(self) -> None:
        """Release what `look_at_once` took."""
        with self._free:
            self._looking -= 1
            self._free.notify_all()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Take the lock for a quick read."""
        with self._free:
            self._free.wait_for(lambda: not self._closed_to_lookers())
            self._looking += 1
        try:
            yield
        finally:
            self.looked()

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Take the lock for reads that may parse or compare schemas."""
        with self._free:
            self._free.wait_for(lambda: not self._changing and not self._waiting)
            self._parsing += 1
        try:
            yield
        finally:
            with self._free:
                self._parsing -= 1
                self._free.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Take the lock for a change; a holder of the lock must not call this."""
        with self._free:
            self._waiting += 1
            try:
                self._free.wait_for(lambda: not (self._changing or self._looking or self._parsing))
            finally:
                self._waiting -= 1
            self._changing = True
        try:
            yield
        finally:
            with self._free:
                self._changing = False
                self._free.notify_all()

    def _closed_to_lookers(self) -> bool:
        return self._changing or (self._waiting > 0 and not self._parsing)
