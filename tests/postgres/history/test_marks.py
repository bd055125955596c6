"""Marks in charts, and hold times of switches: read from the event log by time, by whom they concern."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from backend.domain.switch.cluster_switch import Moving
from backend.queries.base.events import events_before
from backend.queries.history import measures
from backend.queries.history.marks import Mark, marks
from tests.support.api.rest import Rest
from tests.support.console.switching import COMPLETED, PROD, REPORT, commands, start
from tests.support.database.postgres import Database

HOUR_MS = 3_600_000


def found(database: Database, tenants: set[str] | None = None, most: int = 50, ago_hours: int = 0) -> list[Mark]:
    """Return the marks of the hour that ended some hours ago."""
    to_ms = round(time.time() * 1000) + 1000 - ago_hours * HOUR_MS
    with database.engine.connect() as connection:
        return marks(connection, to_ms - HOUR_MS, to_ms, tenants, most)


def test_switches_and_changes_of_the_tree_are_marks(grown: Rest, database: Database) -> None:
    commands(database, *COMPLETED)
    switched = grown("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    assert switched.status_code == 202, switched.text
    texts = [each.text for each in found(database)]
    assert texts == [
        "Tree changed: 3 clusters",
        "Switch 1 · c1 → c2 started",
        "Switch 1 · c1 → c2 completed",
        "c1 level 2 copies to c3 instead of c2",
    ]
    assert [each.name for each in found(database)] == [None, *["Switch 1 · c1 → c2"] * 2, None]
    positions = [each.position for each in found(database)]
    assert positions == sorted(positions)
    assert [each.text for each in found(database, most=2)] == texts[-2:]
    assert found(database, ago_hours=2) == []


def test_a_tenant_sees_the_switches_that_move_it_and_no_others(database: Database) -> None:
    commands(database, *COMPLETED)
    other = {**PROD, "tenant": "globex"}
    commands(database, start("s2", moves=(Moving(**other),), source="c2", target="c1"), switch="s2")
    assert [each.text for each in found(database, {"acme"})] == [
        "Switch c1 → c2 started",
        "Switch c1 → c2 completed",
    ]
    assert [each.text for each in found(database, {"globex"})] == ["Switch c2 → c1 started"]
    assert len(found(database, {"acme", "globex"})) == 3 == len(found(database))
    assert found(database, {"initech"}) == found(database, set()) == []


def test_hold_times_are_those_of_completed_switches_by_source(database: Database) -> None:
    commands(database, *COMPLETED)
    commands(database, start("s2", moves=(Moving(**{**PROD, "tenant": "globex"}),)), switch="s2")
    now_ms = round(time.time() * 1000)
    with database.engine.connect() as connection:
        assert measures.list_subjects(connection, "switch.hold_ms") == ["all", "c1"]
        assert measures.has_subject(connection, "switch.hold_ms", "c1")
        read = measures.read_many(
            connection, "switch.hold_ms", ["all", "c1", "c2"], now_ms - HOUR_MS, now_ms + 60_000, 600_000
        )
    values = {each: [value for _, value in of.points if value is not None] for each, of in read.items()}
    held = REPORT["producers_held_ms"]
    assert values == {"all": [held], "c1": [held], "c2": []}


# Most events are no marks, and the range that is asked for is long ago: an index on either alone finds too many.
MANY = """
INSERT INTO events
SELECT n, 'tree-main-' || n % 100, 1 + n / 100,
  CASE WHEN n % 20 = 0 THEN 'TreeReplaced' ELSE 'StreamApplied' END, 1, '{}',
  '{"actor": "worker:x", "request_id": "r"}',
  CAST(:now AS timestamptz) - make_interval(secs => 10 * (100000 - n)), '', ''
FROM generate_series(1, 100000) n
"""


def test_among_many_events_those_of_the_range_are_found_by_indexes(database: Database) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    with database.engine.begin() as connection:
        connection.execute(sa.text(MANY), {"now": now})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE events"))
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        asked = connection.connection.cursor()
        asked.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {statement}", parameters)
        plans.append("\n".join(row[0] for row in asked.fetchall()))

    sa.event.listen(database.engine, "before_cursor_execute", explain)
    until = now - timedelta(days=5)
    since = until - timedelta(hours=1)
    with database.engine.connect() as connection:
        read = marks(connection, *(round(each.timestamp() * 1000) for each in (since, until)), None)
    assert [each.time for each in read] == [since + timedelta(seconds=200 * each) for each in range(19)]
    assert len(plans) == 1 and "Seq Scan on events" not in plans[0], plans
    assert rows_removed(plans.pop()) < 10
    # The newest events since a time, as the timeline shows them: of a name that none of a day's events has, too.
    since = now - timedelta(hours=1)
    with database.engine.connect() as connection:
        for name, most in (("TreeReplaced", 19), ("StreamApplied", 342), ("TenantCreated", 0)):
            newest = events_before(connection, 2**62, 1000, name=name, since=since)
            assert len(newest) == most and all(each.time >= since for each in newest)
            plan = plans.pop()
            assert "Seq Scan on events" not in plan and rows_removed(plan) <= 400, plan


def rows_removed(plan: str) -> int:
    """Return how many rows were read and not used."""
    return sum(int(line.rpartition(" ")[2]) for line in plan.splitlines() if "Rows Removed by Filter" in line)
