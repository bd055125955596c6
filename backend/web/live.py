"""The Tree page as it changes: looked at and drawn once for all who watch, and not at all while nobody does.

The first watcher starts the one task that looks, the last to leave ends it. It looks when an event is appended,
and after LOOK_SECONDS, and draws only if something is different. A watcher is given whole blocks, never
differences, so one that missed some, or came back after a cut, is right again with the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from backend.eventlog.faults import DatabaseUnavailable
from backend.web.services import ConsoleServices
from backend.web.tree_view import TreeState, read, read_again

logger = structlog.get_logger(__name__)

Blocks = Mapping[str, str]

LOOK_SECONDS = 1.0
# Between two looks however fast events come; a burst of events is drawn as few pictures.
LEAST_SECONDS = 0.25
# How late a watcher notices that the process is to end.
NOTICE_SECONDS = 1.0


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
        self._state: TreeState | None = None
        self._blocks: dict[str, str] = {}
        self._lost_at: datetime | None = None

    async def watch(self) -> AsyncGenerator[Blocks]:
        """The blocks that differ from what this watcher has seen, all at first; {} now and then.

        Ends when the process is to end.
        """
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look_on())
        seen: dict[str, str] = {}
        try:
            while not self._services.closing.is_set():
                news = {name: text for name, text in self._blocks.items() if seen.get(name) != text}
                seen |= news
                yield news
                await self._wait_for_change(seen)
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._task is not None:
                self._task.cancel()
                self._task, self._state, self._blocks = None, None, {}

    async def _wait_for_change(self, seen: Blocks) -> None:
        async with self._changed:
            try:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._changed.wait_for(lambda: self._blocks != seen)
            except TimeoutError:
                pass

    async def _look_on(self) -> None:
        while not self._services.closing.is_set():
            await run_in_threadpool(self._look)
            async with self._changed:
                self._changed.notify_all()
            after = self._state.head if self._state else 0
            await asyncio.sleep(LEAST_SECONDS)
            await self._services.listener.wait_for_events_async(after, LOOK_SECONDS - LEAST_SECONDS)

    def _look(self) -> None:
        """Look once, and draw what is new; a database that is away leaves the last picture and says so."""
        try:
            with self._services.reading() as connection:
                state = read_again(connection, self._state) if self._state else read(connection)
            if state != self._state:
                self._blocks = {**self._blocks, **self._draw(state)}
                self._state = state
            self._lost_at = None
        except (DatabaseUnavailable, SQLAlchemyError) as error:
            if self._lost_at is None:
                logger.warning("the Tree page waits for the database", error=str(error))
                self._lost_at = datetime.now(UTC)
        except Exception:
            # A look that fails must not be the last one: what watchers see would silently stay as it is.
            logger.exception("the Tree page cannot be drawn")
        self._blocks = {**self._blocks, "outage": self._banner(self._lost_at)}
