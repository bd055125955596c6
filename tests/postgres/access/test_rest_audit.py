"""The audit over REST: the list, its filters and places, the export, and the retention."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from backend import web
from backend.deciders import TENANT
from backend.dispatch import Dispatcher
from backend.domain.access.access import Provenance
from backend.domain.tenants.tenant_commands import CreateInstance
from backend.eventlog.provenance import event_provenance
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.access import audit, logins
from backend.queries.access.audit import AuditFilter, Place
from backend.queries.access.logins import LoginKind, record
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.database.postgres import Database

HERE = Provenance("", "10.0.0.7", "a browser")


@pytest.fixture
def rest(rest: Rest) -> Rest:
    """Return the API with the console's pages."""
    web.add_pages(rest.client.app)  # type: ignore[arg-type]
    return rest


def items(rest: Rest, query: str = "") -> list[dict[str, Any]]:
    answer = rest("GET", f"/audit{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def kinds(rest: Rest, query: str = "") -> list[str]:
    return [item["kind"] for item in items(rest, query)]


def test_a_change_says_who_made_it_from_where_and_by_what(rest: Rest) -> None:
    rest("POST", "/tenants", {"name": "acme"}, User_Agent="curl/8")
    ada = new_user(rest, "ada", "operator")
    ada("POST", "/tenants", {"name": "globex"}, User_Agent="treeline-cli")
    found = items(rest)
    assert [(item["kind"], item["actor"], item["tenant"], item["means"], item["agent"]) for item in found] == [
        ("TenantCreated", "ada", "globex", "token ci", "treeline-cli"),
        ("TokenIssued", "admin", None, "token of the settings", "testclient"),
        ("UserCreated", "admin", None, "token of the settings", "testclient"),
        ("TenantCreated", "admin", "acme", "token of the settings", "curl/8"),
    ]
    assert {item["address"] for item in found} == {"testclient"}
    assert found[0]["position"] == rest.head()
    # What is tried out, or changes nothing, comes from nowhere.
    rest("POST", "/tenants?dry_run=true", {"name": "initech"})
    assert items(rest) == found


def test_who_manages_no_users_sees_no_addresses(rest: Rest) -> None:
    viewer = new_user(rest, "eve", "viewer")
    found = viewer("GET", "/audit").json()["items"]
    assert {(item["address"], item["agent"]) for item in found} == {(None, None)}
    assert found[0]["means"] == "token of the settings"
    member = new_user(rest, "bob")
    problem(member("GET", "/audit"), 403, "not-allowed")
    problem(member("GET", "/audit/export"), 403, "not-allowed")


@pytest.fixture
def mixed(both: Rest, database: Database) -> Rest:
    """Cause changes of two tenants, by two users and a worker, with logins between them."""
    ada = new_user(both, "ada", "operator")
    ada("POST", "/tenants/acme/instances", {"name": "wholesale"})
    with database.engine.begin() as connection:
        record(connection, LoginKind.IN, "ada", "password", HERE)
        record(connection, LoginKind.REFUSED, "", "password", HERE, "wrong")
        record(connection, LoginKind.REFUSED, "ada", "password", HERE, "wrong")
    worked(database, "tenant-acme")
    both("POST", "/tenants/globex/instances", {"name": "wholesale"})
    return both


def worked(database: Database, stream: str) -> None:
    """A worker has done something by itself."""
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    metadata, command = (
        Metadata("worker:reconcile", "r"),
        CreateInstance(instance="by-a-worker", known_trees=frozenset({"main"})),
    )
    now = datetime.now(UTC)
    dispatcher.execute(TENANT, stream, command, metadata=metadata, time=now, answer=lambda *_: None)


def test_what_is_asked_for_is_found(mixed: Rest) -> None:
    refused = "LoginRefused"
    assert kinds(mixed, "?kind=Logins") == [refused, refused, "LoggedIn"]
    assert kinds(mixed, f"?kind={refused}&actor=ada") == [refused]
    assert kinds(mixed, "?actor=ada") == [refused, "LoggedIn", "InstanceCreated"]
    assert kinds(mixed, "?actor=ada&kind=InstanceCreated") == ["InstanceCreated"]
    assert {item["tenant"] for item in items(mixed, "?tenant=globex")} == {"globex"}
    assert kinds(mixed, "?tenant=globex")[0] == "InstanceCreated"
    assert kinds(mixed, "?tenant=nobody") == []
    assert kinds(mixed, "?kind=nothing") == []
    everything = items(mixed, "?limit=1000")
    middle = everything[len(everything) // 2]["time"].replace("+", "%2B")
    later, earlier = items(mixed, f"?since={middle}"), items(mixed, f"?until={middle}")
    assert later + earlier == everything
    assert later
    assert earlier
    assert kinds(mixed, "?until=2020-01-01") == []
    assert kinds(mixed, "?since=2999-01-01T00:00:00") == []


def test_every_place_is_reached_once_and_in_order(mixed: Rest) -> None:
    everything = items(mixed, "?limit=1000&workers=true")
    assert [item["time"] for item in everything] == sorted((i["time"] for i in everything), reverse=True)
    for size in (1, 2, 3, 7):
        found, cursor = [], ""
        while True:
            answer = mixed("GET", f"/audit?limit={size}&workers=true{cursor}").json()
            assert len(answer["items"]) <= size
            found += answer["items"]
            if answer["next_cursor"] is None:
                break
            cursor = f"&cursor={answer['next_cursor']}"
        assert found == everything


@pytest.mark.parametrize("zone", ["Z", "%2B14:00", "-14:00", ""])
def test_times_at_the_ends_of_the_calendar_are_times(mixed: Rest, zone: str) -> None:
    everything = kinds(mixed, "?limit=1000")
    first, last = f"0001-01-01T00:00:00{zone}", f"9999-12-31T23:59:59{zone}"
    assert kinds(mixed, f"?limit=1000&since={first}&until={last}") == everything
    assert kinds(mixed, f"?until={first}") == kinds(mixed, f"?since={last}") == []
    export = mixed("GET", f"/audit/export?since={first}&until={last}")
    assert export.status_code == 200 and len(export.text.splitlines()) == len(everything)


WRONG = ("?cursor=x", "?cursor=1.-2", "?since=yesterday", "?actor=%00", "?limit=0", "?x=1")


@pytest.mark.parametrize("query", WRONG)
def test_what_cannot_be_asked_is_said(rest: Rest, query: str) -> None:
    assert rest("GET", f"/audit{query}").status_code == 422


def test_where_no_index_leads_a_page_looks_through_so_many_only(
    both: Rest, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page continues where the first ended, with logins in their place between."""
    monkeypatch.setattr(audit, "WINDOW_EVENTS", 3)
    expected = [item for item in items(both, "?limit=1000") if item["tenant"] == "acme"]
    found, cursor, asked = [], "", 0
    while True:
        answer = both("GET", f"/audit?tenant=acme{cursor}").json()
        found, asked = found + answer["items"], asked + 1
        if answer["next_cursor"] is None:
            break
        cursor = f"&cursor={answer['next_cursor']}"
    assert found == expected
    assert asked > 3
    with database.engine.connect() as connection:
        assert audit.page(connection, AuditFilter(actor="admin", kind="nothing"), Place(), 5).further is not None


def test_an_export_has_all_of_it(mixed: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.api.access.audit.EXPORTED_AT_ONCE", 2)
    everything = items(mixed, "?limit=1000")
    lines = mixed("GET", "/audit/export")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == everything
    table = mixed("GET", "/audit/export?form=csv&kind=Logins")
    assert table.headers["content-type"].startswith("text/csv")
    assert "attachment" in table.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [(row["kind"], row["actor"], row["reason"], row["address"]) for row in rows] == [
        ("LoginRefused", "ada", "wrong", "10.0.0.7"),
        ("LoginRefused", "", "wrong", "10.0.0.7"),
        ("LoggedIn", "ada", "", "10.0.0.7"),
    ]


def test_no_cell_of_an_export_is_a_formula(rest: Rest) -> None:
    rest("POST", "/tenants", {"name": "acme"}, User_Agent='=HYPERLINK("http://evil.example")')
    [row] = csv.DictReader(io.StringIO(rest("GET", "/audit/export?form=csv").text))
    assert row["agent"].startswith("'=HYPERLINK")


def test_what_is_too_old_is_forgotten_and_events_stay(rest: Rest, database: Database) -> None:
    rest("POST", "/tenants", {"name": "acme"})
    old = datetime.now(UTC) - timedelta(days=31)
    with database.engine.begin() as connection:
        record(connection, LoginKind.IN, "ada", "password", HERE)
        for table in (logins.logins, event_provenance):
            connection.execute(sa.update(table).values(time=old))
        logins.forget(connection, 32)
        assert connection.execute(sa.select(sa.func.count()).select_from(event_provenance)).scalar() == 1
        logins.forget(connection, 30)
    [item] = items(rest)
    assert (item["kind"], item["actor"], item["means"], item["address"]) == ("TenantCreated", "admin", None, None)


def test_no_page_reads_a_log_of_a_million(database: Database) -> None:
    """For every filter an index leads to the rows, or a window bounds the search."""
    now = datetime.now(UTC)
    cases = (AuditFilter(), AuditFilter(workers=True), AuditFilter(actor="ada"), AuditFilter(kind="TenantCreated"))
    times = (AuditFilter(since=now - timedelta(days=2), until=now - timedelta(days=1)),)
    with database.owner.begin() as connection:
        connection.execute(sa.text(MANY), {"now": now})
        connection.execute(sa.text("ANALYZE events"))
    plans: list[str] = []

    def explain(connection: Any, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        if statement.startswith("SELECT events.position, events.stream"):
            cursor = connection.connection.cursor()
            cursor.execute(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(row[0] for row in cursor.fetchall()))

    sa.event.listen(database.engine, "before_cursor_execute", explain)
    with database.engine.connect() as connection:
        for asked in (*cases, *times):
            assert audit.page(connection, asked, Place(), 100).rows or asked is times[0]
    assert len(plans) == len(cases) + len(times)
    for plan in plans:
        assert "Seq Scan" not in plan, plan
        assert "Sort" not in plan, plan


# Enough for the planner to see what costs: most of it by workers, some by people.
MANY = """
INSERT INTO events
SELECT n, 'tenant-t' || n % 100, 1 + n / 100,
  CASE WHEN n % 1000 = 0 THEN 'TenantCreated' ELSE 'StreamApplied' END, 1, '{}',
  jsonb_build_object('actor', CASE n % 1000 WHEN 0 THEN 'ada' ELSE 'worker:x' END, 'request_id', 'r'),
  CAST(:now AS timestamptz) - make_interval(secs => 100000 - n), '', ''
FROM generate_series(1, 100000) n
"""
