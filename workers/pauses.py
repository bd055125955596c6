"""Pauses after failures: what could not be reached or read is left alone for a while, longer each time."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

_LONGEST_SECONDS = 60.0

Key = TypeVar("Key", bound=Hashable)


class Pauses(Generic[Key]):
    """Pauses of one thread, for the keys that failed at their last attempt."""

    def __init__(self, first_seconds: float) -> None:
        self._first = first_seconds
        self._failed: dict[Key, tuple[float, float]] = {}
        """(When to try again, previous pause)."""

    def failed(self, key: Key) -> None:
        """Note a failure, and double the key's pause."""
        pause = min(2 * self._failed[key][1], _LONGEST_SECONDS) if key in self._failed else self._first
        self._failed[key] = (time.monotonic() + pause, pause)

    def went_well(self, key: Key) -> None:
        """Note a success: the key may be tried at once."""
        self._failed.pop(key, None)

    def waits(self, key: Key) -> bool:
        """Return whether the key must not be tried yet."""
        return key in self._failed and time.monotonic() < self._failed[key][0]
