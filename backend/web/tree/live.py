"""The Tree page as it changes: looked at and drawn once for all who watch, and not at all while nobody does.

The first watcher starts the one task that looks, the last to leave ends it and waits until a look that is under
way is over. It looks when an event is appended, and after LOOK_SECONDS, and draws only if something is different.
A watcher is given whole blocks, never differences, so one that missed some, or came back after a cut, is right
again with the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from backend.eventlog.faults import DatabaseUnavailable
from backend.web.frame.services import ConsoleServices
from backend.web.tree.tree_view import TreeState, read, read_again

logger = structlog.get_logger(__name__)

Blocks = Mapping[str, str]

LOOK_SECONDS = 1.0
# Between two looks however fast events come; a burst of events is drawn as few pictures.
LEAST_SECONDS = 0.25
# How late a watcher notices that the process is to end.
NOTICE_SECONDS = 1.0


@dataclass
class _Seen:
    """Holds the state and the drawn blocks since the first watcher came.

    Each look writes into the object that it was begun for, so a look that ends after the last watcher has left
    changes nothing for later watchers.
    """

    state: TreeState | None = None
    blocks: dict[str, str] = field(default_factory=dict)


class LiveTree:
    """Made once per process; used on its event loop only."""

    def __init__(
        self,
        services: ConsoleServices,
        draw: Callable[[TreeState], Blocks],
        banner: Callable[[datetime | None], str],
    ) -> None:
        """`draw` makes the page's blocks of a state, `banner` the block `outage` of when the database was lost."""
        self._services = services
        self._draw = draw
        self._banner = banner
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._looking = asyncio.Lock()
        self._seen = _Seen()
        self._lost_at: datetime | None = None

    async def watch(self) -> AsyncGenerator[Blocks]:
        """The blocks that differ from what this watcher has seen, all at first; {} now and then.

        Ends when the process is to end.
        """
        self._watchers += 1
        shown: dict[str, str] = {}
        try:
            while not self._services.closing.is_set():
                self._start()
                news = {name: text for name, text in self._seen.blocks.items() if shown.get(name) != text}
                shown |= news
                yield news
                await self._wait_for_change(shown)
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._task is not None:
                await self._stop(self._task)

    def _start(self) -> None:
        """Start the task that looks, unless it is at work; one that has failed is replaced."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_on(self._seen))
            self._task.add_done_callback(_log_failure)

    async def _stop(self, task: asyncio.Task[None]) -> None:
        """End the task; return when its look is over, too. A watcher that is cancelled returns at once."""
        self._task, self._seen = None, _Seen()
        task.cancel()
        await asyncio.wait([task])

    async def _wait_for_change(self, shown: Blocks) -> None:
        async with self._changed:
            try:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._changed.wait_for(lambda: self._seen.blocks != shown)
            except TimeoutError:
                pass

    async def _look_on(self, seen: _Seen) -> None:
        while not self._services.closing.is_set():
            look = asyncio.create_task(self._look_alone(seen))
            try:
                await asyncio.shield(look)
            finally:
                # A thread cannot be cancelled: this task is over only when its look is.
                await asyncio.wait([look])
            async with self._changed:
                self._changed.notify_all()
            after = seen.state.head if seen.state else 0
            await asyncio.sleep(LEAST_SECONDS)
            await self._services.listener.wait_for_events_async(after, LOOK_SECONDS - LEAST_SECONDS)

    async def _look_alone(self, seen: _Seen) -> None:
        async with self._looking:  # else a look for those who have left would go on beside the next one
            if seen is self._seen:
                await run_in_threadpool(self._look, seen)

    def _look(self, seen: _Seen) -> None:
        """Look once, and draw what is new; a database that is away leaves the last picture and says so."""
        try:
            with self._services.reading() as connection:
                state = read_again(connection, seen.state) if seen.state else read(connection)
            if state != seen.state:
                seen.blocks = {**seen.blocks, **self._draw(state)}
                seen.state = state
            self._lost_at = None
        except (DatabaseUnavailable, SQLAlchemyError) as error:
            if self._lost_at is None:
                logger.warning("the Tree page waits for the database", error=str(error))
                self._lost_at = datetime.now(UTC)
        except Exception:
            # A look that fails must not be the last one: what watchers see would silently stay as it is.
            logger.exception("the Tree page cannot be drawn")
        seen.blocks = {**seen.blocks, "outage": self._banner(self._lost_at)}


def _log_failure(task: asyncio.Task[None]) -> None:
    """Retrieve the exception of a task that has ended by one, since nobody awaits its result."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task that looks for the Tree page has failed; it is started again", exc_info=error)
