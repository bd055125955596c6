"""What an open page costs the control plane: one look a second for all watchers, none for nobody."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from backend.api.services import Services
from backend.deciders import TENANT
from backend.domain.tenant_commands import CreateTenant
from backend.eventlog.recorded import Metadata
from backend.settings import Settings
from backend.web.live import LOOK_SECONDS, Blocks, LiveTree
from backend.web.tree_view import TreeState
from tests.database_fixture import Database

WATCHERS = 5


class Counted:
    """A live tree over a real database, which counts what is drawn and asked."""

    def __init__(self, database: Database) -> None:
        self.services = Services(Settings(database_url=database.url))
        self.drawn: list[int] = []
        self.statements = 0
        self.live = LiveTree(self.services, self._draw, lambda lost_at: f"lost at {lost_at}" if lost_at else "")
        sa.event.listen(self.services.engine, "before_cursor_execute", self._count)

    def _draw(self, state: TreeState) -> Blocks:
        self.drawn.append(state.head)
        return {"timeline": f"head {state.head}"}

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
    async def watch_until(head: int) -> None:
        async with aclosing(counted.live.watch()) as watching:
            async for news in watching:
                if news.get("timeline") == f"head {head}":
                    return

    async def scenario() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(WATCHERS):
                group.create_task(watch_until(3))
            for name in ("t1", "t2", "t3"):
                await asyncio.to_thread(counted.create_tenant, name)

    asyncio.run(scenario())
    assert counted.drawn == sorted(set(counted.drawn)), "each state is drawn once, whoever watches"
    assert counted.drawn[-1] == 3


def test_nothing_is_drawn_while_nothing_changes_and_nothing_asked_while_nobody_looks(counted: Counted) -> None:
    async def scenario() -> tuple[int, int]:
        async with asyncio.timeout(60), aclosing(counted.live.watch()) as watching:
            quiet = 0
            async for news in watching:
                quiet += not news
                if quiet == 3:
                    break
        # A look that was under way may still end; one that went on would end with the services alone.
        looking = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*looking, return_exceptions=True), 60)
        counted.services.stop()
        before = counted.statements
        await asyncio.sleep(3 * LOOK_SECONDS)
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
