"""The projection of applications matches their state, whatever happened, and in whatever order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.domain.tenants.application import Application
from backend.domain.tenants.application_commands import (
    ApplicationCommand,
    DeclareApplication,
    DeleteApplication,
    Facts,
)
from backend.domain.tenants.application_records import RecordAccessApplied
from backend.eventlog.memory import MemoryEventLog
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import domain_registry
from backend.projections.applications import PROJECTION, application_clusters, applications, grants
from backend.projections.memory_rows import MemoryRows
from backend.projections.temporal import open_rows
from tests.unit.tenants.application_strategies import NAME, commands, live

WHO, TIME = Metadata(actor="ada", request_id="r"), datetime(2026, 3, 1, tzinfo=UTC)
KEY = {"tenant": "acme", "instance": "retail", "environment": "prod", "application": "billing"}


@settings(deadline=None)
@given(st.lists(commands, max_size=25))
@example(
    [
        DeclareApplication(name=NAME, produces=(), consumes=(), quotas={}, facts=Facts()),
        RecordAccessApplied(cluster="c1", revision=1, parts={"acls": "applied"}, anew=False),
        DeleteApplication(clusters=frozenset({"c1"})),
    ]
)
def test_rows_say_what_the_state_says(asked: list[ApplicationCommand]) -> None:
    log, rows = MemoryEventLog(domain_registry()), MemoryRows()
    stream = f"application-{NAME}"

    def look(_: Any, state: Application | None, events: list[Any]) -> None:
        for recorded in log.append(stream, log.version(stream), events, metadata=WHO, time=TIME):
            PROJECTION.apply(rows, recorded)
        if state is not None:
            check(state, rows)

    live(asked, look)


def check(state: Application, rows: MemoryRows) -> None:
    found = open_rows(rows, applications, KEY)
    there = state.settings is not None or any(each.removing for each in state.clusters.values())
    assert len(found) == there
    if there:
        [row] = found
        assert (row["revision"], row["credentials"]) == (state.revision, state.credentials)
        assert row["deleted"] is (state.settings is None)
    if state.settings is not None:
        assert tuple(row["groups"]) == state.settings.groups
        assert row["request_percentage"] == state.settings.request_percentage
    assert {
        (row["operation"], row["stream"]): row["state"] for row in open_rows(rows, grants, KEY)
    } == state.grants
    clusters = {row["cluster"]: row for row in open_rows(rows, application_clusters, KEY)}
    assert set(clusters) == set(state.clusters)
    for cluster, each in state.clusters.items():
        row = clusters[cluster]
        assert (row["state"] == "applied", row["failure"]) == (each.applied, each.failure)
        assert row["parts"] == each.parts
