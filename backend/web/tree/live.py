"""Live updates of the Tree page: polled and drawn once for all watchers, and not at all without watchers.

What depends on a watcher's address, such as collapsed subtrees and the order of the table, is drawn once for each
such view. A poll draws a bounded number of views, the oldest drawings first, so that many different views become
slower and nothing else does.

The first watcher starts the one task that polls, the last to leave ends it and waits for a poll in progress. It
polls when an event is appended, and after POLL_SECONDS, and draws only if something has changed. A watcher gets
whole blocks, never differences, so one that missed some, or reconnected, is up to date with the next.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from backend.eventlog.faults import DatabaseUnavailable
from backend.web.frame.services import ConsoleServices
from backend.web.tree.tree_drawings import Blocks as Blocks
from backend.web.tree.tree_drawings import NewestTree
from backend.web.tree.tree_view import TreeState
from backend.web.tree.tree_wish import TreeWish

logger = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
# Minimum time between two polls, however fast events come; a burst of events is drawn as few pictures.
LEAST_SECONDS = 0.25
USUAL_VIEW = TreeWish()
MOST_VIEWS_DRAWN = 4
"""Views that a poll draws, each in up to 40 ms for 50 clusters, so that a process keeps most of its time."""
TREND_SECONDS = 15.0
"""Seconds until the blocks of a view are requested again although the state is the same, for its sparklines."""
# Longest time until a watcher notices that the process is stopping.
NOTICE_SECONDS = 1.0


@dataclass(frozen=True)
class _Drawn:
    """The blocks of a view, the state that they show, and when (monotonic, in seconds) they were drawn."""

    state: TreeState
    blocks: Blocks
    at: float


@dataclass
class _Seen:
    """The state and the drawn blocks since the first watcher came.

    Each poll writes into the object that it was started for, so a poll that ends after the last watcher has left
    changes nothing for later watchers.
    """

    state: TreeState | None = None
    blocks: Blocks = field(default_factory=dict)
    views: Mapping[TreeWish, _Drawn] = field(default_factory=dict)
    """The blocks of each view that is watched, the oldest first."""

    def shown(self, view: TreeWish) -> Blocks:
        """Return all blocks of a view that are drawn."""
        return {**self.blocks, **(self.views[view].blocks if view in self.views else {})}


class LiveTree:
    """Live updates of one process; used on its event loop only."""

    def __init__(
        self,
        services: ConsoleServices,
        draw: Callable[[TreeState], Blocks],
        draw_view: Callable[[TreeState, TreeWish], Blocks],
        banner: Callable[[datetime | None], str],
    ) -> None:
        """Create the updates.

        `draw` renders a state's blocks that all watchers share, `draw_view` those of one view, and `banner` the
        block `outage` of an outage.
        """
        self.newest = NewestTree()
        """The state that the page shows, too."""
        self._services = services
        self._draw = draw
        self._draw_view = draw_view
        self._banner = banner
        self._watched: Counter[TreeWish] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._polling = asyncio.Lock()
        self._seen = _Seen()
        self._lost_at: datetime | None = None

    async def watch(self, view: TreeWish = USUAL_VIEW) -> AsyncGenerator[Blocks]:
        """Yield the blocks of a view that differ from what this watcher has seen, all at first; {} now and then.

        Ends when the process is stopping.
        """
        self._watched[view] += 1
        shown: dict[str, str] = {}
        try:
            while not self._services.closing.is_set():
                self._start()
                found = self._seen.shown(view).items()
                news = {name: text for name, text in found if shown.get(name) != text}
                shown |= news
                yield news
                await self._wait_for_change(view, shown)
        finally:
            self._watched -= Counter([view])
            if not self._watched and self._task is not None:
                await self._stop(self._task)

    def _start(self) -> None:
        """Start the polling task, unless it is running; a failed one is replaced."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_on(self._seen))
            self._task.add_done_callback(_log_failure)

    async def _stop(self, task: asyncio.Task[None]) -> None:
        """End the task; return after a poll in progress. A watcher that is cancelled returns at once."""
        self._task, self._seen = None, _Seen()
        task.cancel()
        await asyncio.wait([task])

    async def _wait_for_change(self, view: TreeWish, shown: Blocks) -> None:
        async with self._changed:
            try:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._changed.wait_for(lambda: self._seen.shown(view) != shown)
            except TimeoutError:
                pass

    async def _look_on(self, seen: _Seen) -> None:
        while not self._services.closing.is_set():
            look = asyncio.create_task(self._look_alone(seen))
            try:
                await asyncio.shield(look)
            finally:
                # A thread cannot be cancelled: this task ends only after its poll.
                await asyncio.wait([look])
            async with self._changed:
                self._changed.notify_all()
            after = seen.state.head if seen.state else 0
            await asyncio.sleep(LEAST_SECONDS)
            await self._services.listener.wait_for_events_async(after, POLL_SECONDS - LEAST_SECONDS)

    async def _look_alone(self, seen: _Seen) -> None:
        async with self._polling:  # otherwise a poll for former watchers would run beside the next one
            if seen is self._seen:
                await run_in_threadpool(self._look, seen, tuple(self._watched))

    def _look(self, seen: _Seen, watched: Sequence[TreeWish]) -> None:
        """Poll once, and draw changes; without a database, keep the last picture and say so."""
        try:
            with self._services.reading() as connection:
                state = self.newest.read(connection)
            if state != seen.state:
                seen.blocks = {**seen.blocks, **self._draw(state)}
                seen.state = state
            seen.views = self._with_newest(seen.views, watched, seen.state or state)
            self._lost_at = None
        except (DatabaseUnavailable, SQLAlchemyError) as error:
            if self._lost_at is None:
                logger.warning("the Tree page waits for the database", error=str(error))
                self._lost_at = datetime.now(UTC)
        except Exception:
            # A failed poll must not be the last one: the page would silently stay as it is.
            logger.exception("the Tree page cannot be drawn")
        seen.blocks = {**seen.blocks, "outage": self._banner(self._lost_at)}

    def _with_newest(
        self, before: Mapping[TreeWish, _Drawn], watched: Sequence[TreeWish], state: TreeState
    ) -> Mapping[TreeWish, _Drawn]:
        """Return the watched views, some drawn again: first those never drawn, then the oldest."""
        kept, now = {view: drawn for view, drawn in before.items() if view in watched}, time.monotonic()
        missing = [view for view in watched if view not in kept]
        old = [view for view, drawn in kept.items() if drawn.state is not state or now - drawn.at > TREND_SECONDS]
        for view in [*missing, *old][:MOST_VIEWS_DRAWN]:
            kept.pop(view, None)
            kept[view] = _Drawn(state, self._draw_view(state, view), now)
        return kept


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the exception of a task, since its result is never awaited."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the polling task of the Tree page has failed; it is restarted", exc_info=error)
