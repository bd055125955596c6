"""Sharing a catalog: many look at it, some parse its schemas, which takes long, and one thread changes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CatalogLock:
    """Who looks or parses shares the catalog with all others who do; who changes it is alone.

    A change waits for who is parsing, and whoever wants to parse next waits for it; who only looks goes on
    meanwhile. Without anybody parsing, a change is let in before those who come to look.
    """

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._looking = self._parsing = self._waiting = 0
        self._changing = False

    def look_at_once(self) -> bool:
        """Whether the caller has it now, to look, without waiting; it gives it back with `looked`."""
        with self._free:
            if self._closed_to_lookers():
                return False
            self._looking += 1
            return True

    def looked(self) -> None:
        """Give back what `look_at_once` gave."""
        with self._free:
            self._looking -= 1
            self._free.notify_all()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """For what takes no time."""
        with self._free:
            self._free.wait_for(lambda: not self._closed_to_lookers())
            self._looking += 1
        try:
            yield
        finally:
            self.looked()

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """For what may parse schemas, or compare them."""
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
        """For what changes the catalog; never by who has it already."""
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
