"""Pages of the audit list, whatever the times of events and logins: clocks differ, and locks order otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from backend.eventlog.tables import events
from backend.queries.access import audit
from backend.queries.access.audit import AuditFilter, AuditRow, Place, page
from tests.support.database.postgres import Database

START = datetime(2026, 11, 26, tzinfo=UTC)
# "OVERRIDING": the database counts by itself, and goes on doing so.
LOGIN = """
INSERT INTO logins (id, time, kind, "user", reason, means, address, agent, tenant)
OVERRIDING SYSTEM VALUE VALUES (:id, :time, :kind, :user, :reason, :means, :address, :agent, :tenant)
"""
SECONDS = st.lists(st.integers(0, 6), max_size=7)


def fill(connection: Connection, of_events: Sequence[int], of_logins: Sequence[int], tenant: str = "") -> None:
    """Add a row of each kind for each number of seconds, in this order; `tenant`: that of the logins."""
    texts = {"name": "TenantCreated", "previous_hash": "", "hash": ""}
    documents = {"schema_version": 1, "data": {}, "metadata": {"actor": "ada", "request_id": "r"}}
    for n, second in enumerate(of_events, 1):
        row = {"position": n, "stream": "tenant-acme", "version": n, "time": START + timedelta(seconds=second)}
        connection.execute(sa.insert(events).values(**texts, **documents, **row))
    said = dict.fromkeys(("user", "reason", "means", "address", "agent", "tenant"), "")
    for n, second in enumerate(of_logins, 1):
        row = {"id": n, "time": START + timedelta(seconds=second), "kind": "LoggedIn", "tenant": tenant}
        connection.execute(sa.text(LOGIN), {**said, **row})


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(of_events=SECONDS, of_logins=SECONDS, most=st.integers(1, 4))
@example(of_events=[0, 1, 3, 2], of_logins=[], most=1)
@example(of_events=[], of_logins=[0, 1, 3, 2], most=1)
@example(of_events=[5, 1], of_logins=[2, 6], most=2)
def test_every_row_comes_once_whatever_its_time(
    database: Database, of_events: list[int], of_logins: list[int], most: int
) -> None:
    with database.owner.connect() as connection:  # never committed
        fill(connection, of_events, of_logins)
        found: list[AuditRow] = []
        place: Place | None = Place()
        while place is not None:
            shown = page(connection, AuditFilter(), place, most)
            assert len(shown.rows) <= most
            found, place = [*found, *shown.rows], shown.further
        assert [row.event.position for row in found if row.event] == list(range(len(of_events), 0, -1))
        assert [row.login.id for row in found if row.login] == list(range(len(of_logins), 0, -1))
        assert found == list(page(connection, AuditFilter(), Place(), 100).rows)
        if of_events == sorted(of_events) and of_logins == sorted(of_logins):
            times = [row.time for row in found]
            assert times == sorted(times, reverse=True)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(of_events=SECONDS, of_logins=SECONDS, most=st.integers(1, 4))
@example(of_events=[0, 1, 2, 3, 4, 5, 6], of_logins=[0, 3, 6], most=4)
def test_a_tenants_rows_come_once_although_few_events_are_scanned_for_a_page(
    database: Database, of_events: list[int], of_logins: list[int], most: int
) -> None:
    """A row that is no event waits until the events that are newer have been scanned."""
    with pytest.MonkeyPatch.context() as patch, database.owner.connect() as connection:
        patch.setattr(audit, "WINDOW_EVENTS", 2)
        fill(connection, of_events, of_logins, tenant="acme")
        found: list[AuditRow] = []
        place: Place | None = Place()
        while place is not None:
            shown = page(connection, AuditFilter(tenant="acme"), place, most)
            found, place = [*found, *shown.rows], shown.further
        assert [row.event.position for row in found if row.event] == list(range(len(of_events), 0, -1))
        assert [row.login.id for row in found if row.login] == list(range(len(of_logins), 0, -1))
        assert {row.tenant for row in found} <= {"acme"}
        if of_events == sorted(of_events) and of_logins == sorted(of_logins):
            times = [row.time for row in found]
            assert times == sorted(times, reverse=True)
        assert page(connection, AuditFilter(tenant="globex"), Place(), 100).rows == []
