"""Cost of an open page for the control plane: one query a second for all viewers, none without viewers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from backend.api.frame.services import Services
from backend.deciders import TENANT
from backend.domain.tenants.tenant_commands import CreateTenant
from backend.eventlog.recorded import Metadata
from backend.settings import Settings
from backend.web.tree import live
from backend.web.tree.live import POLL_SECONDS, Blocks, LiveTree
from backend.web.tree.tree_view import TreeState
from tests.support.database.postgres import Database

WATCHERS = 5


class Counted:
    """A live tree over a real database, which counts drawings and queries."""

    def __init__(self, database: Database) -> None:
        self.services = Services(Settings(database_url=database.url))
        self.drawn: list[int] = []
        self.statements = 0
        self.before_drawing: Callable[[], object] = lambda: None
        self.failing_banners = 0
        self.views_drawn: list[tuple[int, str]] = []
        self.live = LiveTree(self.services, self._draw, self._draw_view, self._banner)
        sa.event.listen(self.services.engine, "before_cursor_execute", self._count)

    def _draw(self, state: TreeState) -> Blocks:
        self.before_drawing()
        self.drawn.append(state.head)
        return {"timeline": f"head {state.head}"}

    def _draw_view(self, state: TreeState, view: str) -> Blocks:
        self.views_drawn.append((state.head, view))
        return {"diagram": f"{view} at {state.head}"}

    def _banner(self, lost_at: datetime | None) -> str:
        if self.failing_banners:
            self.failing_banners -= 1
            raise RuntimeError("no banner")
        return f"lost at {lost_at}" if lost_at else ""

    async def watch_until(self, head: int) -> list[str]:
        """Return what a viewer has received by then."""
        seen = []
        async with aclosing(self.live.watch()) as watching:
            async for news in watching:
                seen += [news["timeline"]] if "timeline" in news else []
                if f"head {head}" in seen:
                    break
        return seen

    async def diagrams_until(self, view: str, last: str) -> list[str]:
        """Return the drawings of a view that a viewer has received by then."""
        seen: list[str] = []
        async with aclosing(self.live.watch(view)) as watching:
            async for news in watching:
                seen += [news["diagram"]] if "diagram" in news else []
                if last in seen:
                    break
        return seen

    def _count(self, *_: object) -> None:
        self.statements += 1

    def create_tenant(self, name: str) -> None:
        self.services.dispatcher.execute(
            TENANT,
            f"tenant-{name}",
            CreateTenant(tenant=name),
            metadata=Metadata("test", "test"),
            time=datetime.now(UTC),
            answer=lambda connection, outcome: None,
        )


@pytest.fixture
def counted(database: Database):
    counted = Counted(database)
    counted.services.start()
    yield counted
    counted.services.stop()


def test_all_watchers_share_each_drawing_and_each_sees_the_last(counted: Counted) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(WATCHERS):
                group.create_task(counted.watch_until(3))
            for name in ("t1", "t2", "t3"):
                await asyncio.to_thread(counted.create_tenant, name)

    asyncio.run(scenario())
    assert counted.drawn == sorted(set(counted.drawn)), "each state is drawn once, whoever watches"
    assert counted.drawn[-1] == 3


def test_each_view_is_drawn_once_for_all_who_watch_it_and_a_poll_draws_only_so_many(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_VIEWS_DRAWN", 2)
    views = ["", "none", "r0", "r0,r1", "r1"]

    async def scenario() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for view in views * 2:
                group.create_task(counted.diagrams_until(view, f"{view} at 1"))
            await asyncio.to_thread(counted.create_tenant, "t1")

    asyncio.run(scenario())
    drawn = counted.views_drawn
    assert len(set(drawn)) == len(drawn), "no view is drawn twice for one state"
    assert {view for head, view in drawn if head == 1} == set(views), "and none is forgotten"


def test_nothing_is_drawn_while_nothing_changes_and_nothing_asked_while_nobody_looks(counted: Counted) -> None:
    async def scenario() -> tuple[int, int]:
        async with asyncio.timeout(60), aclosing(counted.live.watch()) as watching:
            quiet = 0
            async for news in watching:
                quiet += not news
                if quiet == 3:
                    break
        # The task ends with the last viewer; otherwise it would end only with the services.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        counted.services.stop()
        before = counted.statements
        await asyncio.sleep(3 * POLL_SECONDS)
        return before, counted.statements

    before, after = asyncio.run(scenario())
    assert counted.drawn == [0]
    assert before == after


def test_watching_ends_when_the_process_is_to_end(counted: Counted) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), aclosing(counted.live.watch()) as watching:
            async for _ in watching:
                counted.services.closing.set()

    asyncio.run(scenario())


class Drawings:
    """Drawings that end only when the test lets them."""

    def __init__(self, counted: Counted) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.at_once, self.most_at_once = 0, 0
        counted.before_drawing = self._hold

    def _hold(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        self.begun.set()
        self.let_go.wait(60)
        self.at_once -= 1


@pytest.fixture
def drawings(counted: Counted):
    drawings = Drawings(counted)
    yield drawings
    drawings.let_go.set()


def test_the_last_to_leave_waits_for_the_look_that_is_under_way(counted: Counted, drawings: Drawings) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60):
            watching = counted.live.watch()
            await anext(watching)
            await asyncio.to_thread(drawings.begun.wait)
            asyncio.get_running_loop().call_later(1, drawings.let_go.set)
            await watching.aclose()
            assert counted.drawn == [0]

    asyncio.run(scenario())


def test_no_look_begins_beside_one_for_a_watcher_that_was_cut_off(counted: Counted, drawings: Drawings) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60):
            cut_off = asyncio.create_task(counted.watch_until(1))
            await asyncio.to_thread(drawings.begun.wait)
            while not cut_off.done():
                cut_off.cancel()  # again and again, as the server does once a browser has gone
                await asyncio.sleep(0)
            await asyncio.to_thread(counted.create_tenant, "t1")
            asyncio.get_running_loop().call_later(1, drawings.let_go.set)
            assert await counted.watch_until(1) == ["head 1"], "nothing that was drawn for the one before"

    asyncio.run(scenario())
    assert (counted.drawn, drawings.most_at_once) == ([0, 1], 1)


def test_a_task_that_fails_is_logged_and_started_again(counted: Counted) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(counted.watch_until(1))
            while counted.failing_banners:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(counted.create_tenant, "t1")

    counted.failing_banners = 1
    with capture_logs() as logged:
        asyncio.run(scenario())
    assert [str(line["exc_info"]) for line in logged if line["log_level"] == "error"] == ["no banner"]
