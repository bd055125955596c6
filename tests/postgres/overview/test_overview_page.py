"""The Overview page and `GET /overview`: what operators, viewers and tenants see."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOffline
from backend.domain.offsets.group_diagnosis import NO_MEMBERS
from backend.domain.overview.estate_facts import TenantFacts
from backend.domain.switch.cluster_switch import Phase
from backend.domain.switch.switch_commands import Abort
from backend.domain.tenants.stream_records import RecordApplyFailed
from backend.queries.base.observed import leases, unit_states
from backend.queries.overview import recent_events, tenant_state
from backend.queries.overview.recent_events import RecentEvents
from backend.web.overview.today_view import NAMES, happened, since
from tests.browser.distribution.test_losses_page import add_dead_letter, lose
from tests.postgres.webhooks.test_webhooks_pages import told_of
from tests.support.api.observations import observe
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.console.grouping import group, observed, of_globex, partition
from tests.support.console.replicating import look, looked_at
from tests.support.console.switching import all_online, commands, start, to
from tests.support.console.visitors import PROD, Visitor, record, said, visitor
from tests.support.console.zoning import reports
from tests.support.database.postgres import Database

EDGES = (("c1", 2, "c2"), ("c2", 1, "c3"), ("c2", 2, "c1"), ("c3", 1, "c2"), ("c3", 2, "c1"))
LONG_AGO_MS = 1_000_000_000_000
ORDERS: dict[str, Any] = {
    "instance": "retail",
    "environment": "prod",
    "stream": "orders",
    "cluster": "c2",
    "revision": 1,
}


def in_order(database: Database) -> None:
    """Put all clusters online, and all distributors in time."""
    all_online(database)
    for cluster, level, target in EDGES:
        # A minute ahead: what was reported some seconds ago is not known any more.
        observe(
            database.engine, cluster, level, target, seen_at=sa.text("clock_timestamp() + interval '1 minute'")
        )
    control(database, 10)


def control(database: Database, seconds: int) -> None:
    """Let the lease of the worker that observes clusters end in so many seconds; negative: so long ago."""
    expires_at = sa.func.clock_timestamp() + timedelta(seconds=seconds)
    row = insert(leases).values(unit="reconcile", holder="w:2", epoch=1, expires_at=expires_at)
    with database.engine.begin() as connection:
        kept = {"expires_at": expires_at}
        connection.execute(row.on_conflict_do_update(index_elements=["unit"], set_=kept))


def overview(console: Console, token: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = RestClient(console.url, token or console.token).ok("GET", "/overview")
    return found


def codes(console: Console, token: str | None = None) -> list[str]:
    return [each["code"] for each in overview(console, token)["problems"]]


def listed(visitor: Visitor, path: str = "/overview") -> list[str]:
    return re.findall(r'<li data-code="([^"]+)"', visitor.get(path).text)


def idle(name: str, **changes: Any) -> Any:
    """Return a group without members, for a long time."""
    left = partition(0, member=None, records_per_second=0.0)
    return group(name, members=(), partitions=(left,), before=(NO_MEMBERS, LONG_AGO_MS), **changes)


def test_an_estate_in_order_has_one_verdict_everywhere(acme: Console, database: Database) -> None:
    in_order(database)
    found = overview(acme)
    assert (found["scope"], found["state"], found["problems"]) == ("estate", "fine", [])
    assert found["verdict"] == "All 5 distributors in time, 0 unacknowledged losses, 3 of 3 clusters online."
    assert found["counts"]["distributors_in_time"] == 5
    viewer = visitor(acme, "viewer")
    for path in ("/", "/overview", "/overview/-live"):
        assert found["verdict"] in said(viewer.get(path)), path
    assert viewer.get("/overview/-live").text.startswith("<title>Overview")
    page = viewer.get("/overview")
    assert 'id="verdict-text" role="status"' in page.text
    assert 'data-tone="fine"' in page.text and 'id="problem-list"' not in page.text
    assert "Tree of 3 clusters; distributors: 5 running" in said(page)
    assert re.search(r'aria-current="page">(<svg.*?</svg>)?<span>Overview<', page.text)


def test_problems_are_listed_in_order_with_their_ways_out(acme: Console, database: Database) -> None:
    in_order(database)
    lose(database, 40, 44)
    add_dead_letter(database)
    record(database, RecordApplyFailed(**ORDERS, reason="policy forbids it"))
    # Afterwards: a task's lag counts only once it carries out the newest plan.
    observe(database.engine, "c3", 1, "c2", lag_records=900, wait_seconds=4000.0)
    observe(database.engine, "c2", 1, "c3", state="blocked", reason="no space on c3")
    look(database, looked_at(away=(2,)), "id-0")
    told_of(acme, database)
    observed(database, idle("audit"), group("busy"))
    found = overview(acme)
    assert found["state"] == "critical"
    assert [each["code"] for each in found["problems"]] == [
        "records-lost",
        "records-lost",
        "dead-letters",
        "dead-letters",
        "distributor-blocked",
        "broker-away",
        "distributor-late",
        "group-no-members",
        "stream-not-applied",
        "webhook-failing",
    ]
    assert found["verdict"] == "2 unacknowledged lost record ranges at c1 level 1. 9 more problems."
    assert all(each["since"] for each in found["problems"] if each["kind"] == "data-loss")
    viewer, operator = visitor(acme, "viewer"), visitor(acme, "operator")
    page = operator.get("/overview")
    assert page.text.count('<small class="advice">') == 7, "that of the first problem is in the verdict"
    assert len(listed(operator)) == 8 and len(listed(operator, "/overview?all=yes")) == 10
    assert "And more: 2 drift. Show all 10 problems" in said(page)
    assert "Distributor c2 level 1 to c3 is blocked: no space on c3." in said(page)
    assert 'href="/losses/-acknowledge?cluster=c1&amp;level=2"' in page.text
    # A viewer may not use that form, and is led to the page above it.
    assert "-acknowledge" not in viewer.get("/overview").text and 'href="/losses"' in viewer.get("/overview").text
    assert found["problems"][5]["way_out"]["address"] == "/clusters/c1/replication"
    assert re.findall(r'data-cluster="(c\d)"', page.text) == ["c1", "c2", "c3"]
    assert "Losses 3 record ranges lost" in said(page)


def test_a_cause_is_named_in_place_of_its_consequences(acme: Console, database: Database) -> None:
    in_order(database)
    record(database, RecordOffline(reason="<b>refused</b>"), CLUSTER, "cluster-c2")
    assert codes(acme) == ["cluster-offline"]
    page = visitor(acme, "viewer").get("/overview")
    assert "c2 is offline: <b>refused</b>." in said(page) and "<b>refused" not in page.text
    assert re.findall(r'data-cluster="(c\d)"', page.text)[0] == "c2"
    with database.engine.begin() as connection:
        connection.execute(sa.update(unit_states).values(seen_at=sa.text("now() - interval '5 minutes'")))
    assert codes(acme) == ["copying-silent", "cluster-offline"]
    control(database, -300)
    assert codes(acme) == ["workers-silent", "cluster-offline"]


def test_workers_of_each_kind_and_of_each_task_are_missed(acme: Console, database: Database) -> None:
    in_order(database)
    control(database, -300)
    assert codes(acme) == ["control-silent"]
    control(database, 10)
    of_c1 = leases.c.unit.like("distributor:c1:2:%")
    with database.engine.begin() as connection:
        connection.execute(sa.update(leases).where(of_c1).values(expires_at=sa.func.clock_timestamp()))
    assert codes(acme) == ["distributor-starting"] and overview(acme)["state"] == "fine"
    ago = {"expires_at": sa.func.clock_timestamp() - timedelta(minutes=5)}
    with database.owner.begin() as connection:
        connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        connection.execute(sa.text("UPDATE events SET time = time - interval '9 minutes'"))
        connection.execute(sa.update(leases).where(of_c1).values(**ago))
    (problem,) = overview(acme)["problems"]
    assert problem["code"] == "distributor-waiting" and problem["since"]


def test_switches_and_nodes_are_told(acme: Console, database: Database) -> None:
    in_order(database)
    reports(acme)
    commands(database, start(), to(Phase.HOLDING, missing_records=3))
    assert codes(acme) == ["switch-running"]
    assert "Switch 1 of clients from c1 to c2 is in progress: holding." in said(
        visitor(acme, "viewer").get("/overview")
    )
    commands(database, Abort(by="worker", reason="c2 went away"))
    found = overview(acme)
    assert [each["code"] for each in found["problems"]] == ["switch-failed"] and found["state"] == "warning"
    assert found["problems"][0]["since"]


def test_a_group_without_members_counts_where_its_clients_are_active(acme: Console, database: Database) -> None:
    in_order(database)
    observed(database, idle("audit"))
    observed(database, idle("audit", cluster="c2"), idle("others", cluster="c2", place=None, group=None))
    found = overview(acme)
    assert [each["subject"] for each in found["problems"]] == ["2 consumer groups"], "c1 is active, c2 has copies"
    assert "acme-retail-prod-others on c2" in found["problems"][0]["text"]
    # Of the group without a place, the member sees a part.
    seen = overview(acme, visitor(acme, "member").token)
    assert [each["text"] for each in seen["problems"]] == [found["problems"][0]["text"]]


def test_a_tenant_sees_its_own_things_and_no_figure_of_the_estate(acme: Console, database: Database) -> None:
    in_order(database)
    lose(database, 40, 44)
    record(database, RecordOffline(reason="b9:9092 refused"), CLUSTER, "cluster-c3")
    record(database, RecordApplyFailed(**ORDERS, reason="policy forbids it"))
    commands(database, start(), to(Phase.HOLDING, missing_records=3))
    observed(database, idle("audit"), of_globex())
    member, stranger = visitor(acme, "member"), visitor(acme, "stranger")
    found = overview(acme, member.token)
    assert found["scope"] == "tenants"
    assert [each["code"] for each in found["problems"]] == [
        "group-no-members",
        "stream-not-applied",
        "switch-running",
    ]
    assert set(found["counts"]) == {
        "streams",
        "streams_not_applied",
        "groups",
        "groups_with_problems",
        "switches_running",
    }
    text = said(member.get("/"))
    assert "Stream acme/retail/prod/orders could not be applied on 1 of 3 clusters." in text
    assert f'href="{PROD}"' in member.get("/").text
    for hidden in ("globex", "refused", "lost", "Distributor"):
        assert hidden not in text, hidden
    others = overview(acme, stranger.token)
    assert others["state"] == "fine" and others["problems"] == []
    assert others["verdict"] == "1 stream applied on all clusters, 1 consumer group without problems."
    assert "acme" not in said(stranger.get("/")) and "orders" not in said(stranger.get("/overview"))


def test_what_of_a_tenant_is_not_read_is_counted_or_told(
    acme: Console, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = "/tenants/acme/instances/retail/environments/prod/streams"
    for name in ("first", "second"):
        acme.rest.ok("POST", below, {"name": name})

    def read() -> tuple[TenantFacts, RecentEvents]:
        with database.engine.begin() as connection:
            facts = tenant_state.read_tenants(connection, ["acme"])
            return facts, recent_events.recent_events_of(connection, since(facts.now), NAMES, ["acme"])

    whole, day = read()
    assert len(whole.pending) >= 2 and whole.more_pending == 0 and not day.is_partial
    monkeypatch.setattr(tenant_state, "_MOST_NAMED", 1)
    monkeypatch.setattr(recent_events, "_MOST_OF_TENANTS", 1)
    part, last = read()
    assert len(part.pending) == 1 and part.more_pending == len(whole.pending) - 1
    assert last.counts == {"StreamDeclared": 1} and last.is_partial
    with database.engine.begin() as connection:
        lines = happened(connection, last)
    assert [each.parts[0].text for each in lines] == ["1+ streams declared"]


def test_callers_without_anything_to_see_are_led_to_their_account(acme: Console) -> None:
    nobody = Visitor(acme, "nobody")
    assert nobody.get("/").headers["location"] == "/account"
    assert nobody.get("/overview").status_code == 403
    assert RestClient(acme.url, nobody.token)("GET", "/overview").status_code == 403
