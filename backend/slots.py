"""Shares of what one process can do at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from backend.domain.base.errors import MessagesBusy


class Slots:
    """Places for requests that keep threads or brokers busy, with a share for each user; threads share it."""

    def __init__(self, most: int, of_user: int, doing: str = "reading messages") -> None:
        self._most, self._of_user, self._doing = most, of_user, doing
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """Hold a place. Raises MessagesBusy if there is none, or if the user has the whole share."""
        with self._lock:
            if self._taken[user] >= self._of_user:
                raise MessagesBusy(
                    f"{self._of_user} of your requests are {self._doing} already; try again in a few seconds"
                )
            if self._taken.total() >= self._most:
                raise MessagesBusy(f"{self._most} requests are {self._doing} already; try again in a few seconds")
            self._taken[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[user] -= 1
                if not self._taken[user]:
                    del self._taken[user]
