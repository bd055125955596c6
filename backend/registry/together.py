"""One question to the database for all requests that wait for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Together(Generic[T]):
    """Asks on a thread, once at a time. Everybody gets an answer that was asked for after they came: what was
    committed before is in it."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The answer; raises what asking raises. Others get it also if this one's caller goes away."""
        # One that is done, and still here, was of an event loop that has ended.
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, running: asyncio.Task[T] | None) -> T:
        if running is not None and not running.done():
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await asyncio.to_thread(self._ask)
