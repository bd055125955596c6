"""Coalesces requests to the database: all waiting requests share one query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs one query at a time, on a thread.

    Every caller gets the result of a query that began after the call: it includes everything committed before.
    """

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Return the result; raises what the query raises.

        Others get it, too, if this one's caller goes away.
        """
        # A finished task that is still here belongs to an event loop that has ended.
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, running: asyncio.Task[T] | None) -> T:
        if running is not None and not running.done():
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await asyncio.to_thread(self._ask)
