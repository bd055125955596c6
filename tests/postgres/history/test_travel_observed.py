"""Pages of what is observed, as of an earlier position: they show what a look saw shortly before."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
import sqlalchemy as sa

from backend.cluster_requests.tracing import Trace, TracedCopy, TracedOrigin
from backend.deciders import TREE
from backend.domain.distribution.trace import Missing
from backend.domain.tree.tree import RecordPrimaryMoved
from backend.queries.history import snapshots
from backend.queries.history.snapshot_tables import looks
from backend.queries.offsets.offset_tables import applied_offsets, group_commits
from backend.web.distribution.trace_page import TraceView
from tests.browser.offsets.test_offsets_page import ITEMS, ORDERS, committed, shown
from tests.support.console.consoles import Console
from tests.support.console.replicating import look as seen
from tests.support.console.replicating import looked_at, online
from tests.support.console.visitors import Visitor, head, record, said, visitor
from tests.support.database.postgres import Database

OFFSETS, REPLICATION = "/offsets", "/clusters/c1/replication"


def look(database: Database) -> None:
    assert snapshots.take_snapshot(database.engine)


def event(console: Console) -> int:
    """Append an event; return its position."""
    margin = head(console)["position"] % 100 + 1
    console.rest.ok("PATCH", "/tenants/acme/instances/retail/environments/prod", {"margin_seconds": margin})
    return int(head(console)["position"])


@pytest.fixture
def moved(acme: Console, database: Database) -> dict[str, int]:
    """Return positions: before any snapshot, of a group at 35,000, and at 40,000 beside another group."""
    none = event(acme)
    committed(database, ORDERS, "billing")
    look(database)
    first = event(acme)
    with database.engine.begin() as connection:
        connection.execute(sa.update(group_commits).values(committed_offset=40_000))
        connection.execute(sa.update(applied_offsets).values(offset=39_999, re_read_bound=1))
    committed(database, ITEMS, "audit")
    look(database)
    second = event(acme)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(group_commits))
    return {"none": none, "first": first, "second": second}


def test_offsets_are_as_a_look_saw_them(acme: Console, moved: dict[str, int]) -> None:
    viewer = visitor(acme, "viewer")
    assert "No group has committed offsets yet" in said(viewer.get(OFFSETS))
    first = viewer.get(f"{OFFSETS}?at={moved['first']}")
    assert shown(first) == [f"c1/{ORDERS}/0/billing"]
    assert "35,000" in said(first) and "c2 34,988 set by Treeline 12 applied, margin" in said(first)
    assert re.search(
        r"position \d+ of \d+: the observation of \d+ \w+ 2\d{3}, [\d:]+ UTC, [\d.]+ m?s before it", said(first)
    )
    assert "Committed offsets" in said(first) and "hx-get" not in first.text
    assert "Reset a group" not in said(first) and f'name="at" value="{moved["first"]}"' in first.text
    second = viewer.get(f"{OFFSETS}?at={moved['second']}")
    assert shown(second) == [f"c1/{ORDERS}/0/billing", f"c1/{ITEMS}/0/audit"]
    orders = said(second).partition("audit")[0]
    assert "c2 39,999 set by Treeline 1 applied" in orders and "35,000" not in orders
    assert shown(viewer.get(f"{OFFSETS}?at={moved['second']}&group=audit")) == [f"c1/{ITEMS}/0/audit"]
    nothing = viewer.get(f"{OFFSETS}?at={moved['second']}&group=nobody")
    assert "No committed offsets matched the filter." in said(nothing)


def test_a_file_is_of_then_too(acme: Console, moved: dict[str, int]) -> None:
    viewer = visitor(acme, "viewer")
    link = re.search(r'href="(/offsets/-export[^"]*)"', viewer.get(f"{OFFSETS}?at={moved['first']}").text)
    assert link is not None and f"at={moved['first']}" in link[1]
    exported = viewer.get(link[1])
    lines = list(csv.DictReader(io.StringIO(exported.text)))
    assert [(line["group"], line["committed_offset"], line["offset"]) for line in lines] == [
        ("billing", "35000", "34988")
    ]
    none = viewer.get(f"{OFFSETS}/-export?at={moved['none']}")
    assert none.status_code == 404 and "is no longer stored" in said(none)
    assert "Export" not in said(viewer.get(f"{OFFSETS}?at={moved['none']}"))
    assert viewer.get(f"{OFFSETS}/-export?at=x").status_code == 422


def test_many_of_then_come_page_by_page(acme: Console, database: Database) -> None:
    for partition in range(130):
        committed(database, ORDERS, "billing", partition)
    look(database)
    at = event(acme)
    viewer = visitor(acme, "viewer")
    first = viewer.get(f"{OFFSETS}?at={at}")
    following = re.search(r'href="(/offsets\?[^"]*)">Next page', first.text)
    assert following is not None
    second = viewer.get(following[1].replace("&amp;", "&"))
    assert len({*shown(first), *shown(second)}) == 130 and f"position {at}" in said(second)


def test_what_is_not_kept_is_said(acme: Console, moved: dict[str, int], database: Database) -> None:
    viewer = visitor(acme, "viewer")
    for path in (OFFSETS, REPLICATION):
        page = viewer.get(f"{path}?at={moved['none']}")
        assert page.status_code == 200
        assert re.search(
            r"the observation for that time is no longer stored; "
            r"the oldest one is from \d+ \w+ 2\d{3}, [\d:]+ UTC",
            said(page),
        )
    assert "No observation of that time is kept." in said(viewer.get(f"{OFFSETS}?at={moved['none']}"))
    assert "No observation of that time is kept." in said(viewer.get(f"{OFFSETS}?at=0"))
    with database.engine.begin() as connection:
        connection.execute(sa.delete(looks))
    page = viewer.get(f"{OFFSETS}?at={moved['first']}")
    assert "since no worker has made one yet" in said(page) and shown(page) == []


def test_a_tenant_sees_its_own_of_then_and_not_where_the_log_ends(acme: Console, moved: dict[str, int]) -> None:
    owner = visitor(acme, "owner")
    page = owner.get(f"{OFFSETS}?at={moved['second']}")
    assert shown(page) == [f"c1/{ORDERS}/0/billing"] and "40,000" in said(page)
    assert re.search(
        r"the observation of [^:]*:[\d:]+ UTC, [\d.]+ m?s before your newest event by then", said(page)
    )
    assert ITEMS not in owner.get(f"{OFFSETS}/-export?at={moved['second']}").text
    # Events of other tenants follow its own: its view of then is the same, wherever the log ends.
    acme.rest.ok("POST", "/users", {"name": "somebody", "role": "viewer"})
    acme.rest.ok("PUT", "/trees/main/primary", {"cluster": "c3", "take_over": True})
    newest = head(acme)["position"]
    for path in (OFFSETS, "/trace"):
        pages = [owner.get(f"{path}?at={at}") for at in (moved["second"], newest - 1, newest, newest + 1, 10**12)]
        shows = {said(each).partition("Back to now")[2] for each in pages}
        assert len(shows) == 1 and shows != {""}
        if path == OFFSETS:
            when = [
                re.search("the observation of .* before your newest event by then", said(each)) for each in pages
            ]
            assert len({each and each[0] for each in when}) == 1 and all(when)


def test_replication_is_as_a_look_saw_it(acme: Console, database: Database) -> None:
    operator = visitor(acme, "operator")
    online(database)
    seen(database, looked_at(away=(6,)))
    look(database)
    acme.rest.ok("PUT", "/clusters/c1/placement-policy", {"policy": "propose"})
    then = event(acme)
    seen(database, looked_at())
    look(database)
    acme.rest.ok("PUT", "/clusters/c1/placement-policy", {"policy": "off"})
    assert "All replicas are in sync" in said(operator.get(REPLICATION))
    page = operator.get(f"{REPLICATION}?at={then}")
    text = said(page)
    assert "Degraded" in text and "5 brokers, 1 offline" in text and "12 partitions under-replicated" in text
    assert "a plan is proposed for review, and nothing moves" in text
    assert (
        re.search(r"online · observed [\d.]+ m?s before", text) and "ago" not in text.partition("When brokers")[0]
    )
    assert '<tr data-broker="6" data-tone="bad">' in page.text
    for action in ("hx-get", "http-equiv", 'id="elect"', "Ask for", "Change policy", "it died now"):
        assert action not in page.text, action
    assert operator.get(f"{REPLICATION}?at=0").status_code == 404, "the cluster was not there"
    assert visitor(acme, "viewer").get(f"{REPLICATION}?at={then}").status_code == 200


def test_a_cluster_that_could_not_be_seen_then(acme: Console, database: Database) -> None:
    viewer = visitor(acme, "viewer")
    online(database)
    seen(database, looked_at())
    said_then = []
    for reason in (None, "it hangs"):
        with database.engine.begin() as connection:
            old = "UPDATE cluster_replication SET reason = :reason, seen_at = now() - interval '5 hours'"
            connection.execute(sa.text(old), {"reason": reason})
        look(database)
        said_then.append(said(viewer.get(f"{REPLICATION}?at={event(acme)}")))
    stale, away = said_then
    assert "Not observable then" in stale and "The data below was observed 5 h before." in stale
    assert "It hangs. The data below was observed 5 h before." in away and "observed 5 h before" in away
    assert "No worker has observed the cluster since" not in stale, "that is said of now"


def test_operations_are_as_far_as_they_were(acme: Console, database: Database) -> None:
    operator = visitor(acme, "operator")
    before = head(acme)["position"]
    moving = acme.rest.ok("PUT", "/trees/main/primary", {"cluster": "c3", "take_over": True})
    address = f"/operations/{moving['operation']}"
    begun = head(acme)["position"]
    record(database, RecordPrimaryMoved(cluster="c3", previous="c1", skipped_ids=1000), TREE, "tree-main")
    assert "done" in said(operator.get(address))
    page = operator.get(f"{address}?at={begun}")
    assert "in progress" in said(page) and "progress at that time" in said(page) and "hx-get" not in page.text
    assert "done" in said(operator.get(f"{address}?at={begun + 1}"))
    assert operator.get(f"{address}?at={before}").status_code == 404


def test_whether_tasks_ran_then_is_said_to_be_unknown(acme: Console) -> None:
    operator = visitor(acme, "operator")
    for target in ("c3", "c2"):
        acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": target})
    second = head(acme)["position"]
    page = operator.get(f"/operations/target-switch-{second}?at={second}")
    assert "unknown" in said(page) and "<progress" not in page.text
    assert f'<a href="/operations/target-switch-{second}" data-now>See the result</a>' in page.text
    overtaken = operator.get(f"/operations/target-switch-{second - 1}?at={second}")
    assert "no longer copies to c3" in said(overtaken)


@pytest.fixture
def traced() -> Trace:
    """Return a trace: produced on c1 at 1000 ms; on c2 at 2000, on c3 at 3000, on c4 unknown; not on c5."""
    copies = [TracedCopy(f"c{n}", 7, 1, None, arrived) for n, arrived in ((2, 2000), (3, 3000), (4, None))]
    origin = TracedOrigin("c1", 1, 7, 1000, present=True)
    return Trace(origin, tuple(copies), (Missing(cluster="c5", state="absent", reason="it is on its way"),))


@pytest.mark.parametrize(
    ("until", "come", "later", "produced"),
    [(999, ["c4"], ["c2", "c3"], False), (2000, ["c2", "c4"], ["c3"], True), (3000, ["c2", "c3", "c4"], [], True)],
)
def test_copies_that_came_later_had_not_come(
    traced: Trace, until: int, come: list[str], later: list[str], produced: bool
) -> None:
    view = TraceView(traced, until)
    assert [each.cluster for each in view.copies] == come and [each.cluster for each in view.later] == later
    assert view.is_produced == produced and not view.is_whole
    now: Any = TraceView(traced)
    assert len(now.copies) == 3 and not now.later and now.is_produced


def test_the_form_of_a_trace_stays_in_the_past(acme: Console, moved: dict[str, int]) -> None:
    viewer: Visitor = visitor(acme, "viewer")
    page = viewer.get(f"/trace?at={moved['first']}")
    assert f'name="at" value="{moved["first"]}"' in page.text
    assert "which of the current copies had arrived by then" in said(page)
    assert viewer.get("/trace?at=x").status_code == 422
