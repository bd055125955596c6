"""What could not be reached, or read, is left alone for a while, and for longer each time."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

_LONGEST_SECONDS = 60.0

Key = TypeVar("Key", bound=Hashable)


class Pauses(Generic[Key]):
    """Of one thread; over `Key` are those that failed when they were tried last."""

    def __init__(self, first_seconds: float) -> None:
        self._first = first_seconds
        self._failed: dict[Key, tuple[float, float]] = {}
        """(when to try again, the pause before)."""

    def failed(self, key: Key) -> None:
        """It may be the cluster, or the session, for a moment."""
        pause = min(2 * self._failed[key][1], _LONGEST_SECONDS) if key in self._failed else self._first
        self._failed[key] = (time.monotonic() + pause, pause)

    def went_well(self, key: Key) -> None:
        """It is tried at once again."""
        self._failed.pop(key, None)

    def waits(self, key: Key) -> bool:
        """Whether it is not to be tried yet."""
        return key in self._failed and time.monotonic() < self._failed[key][0]
