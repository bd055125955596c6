"""The tabs of a stream's page, by role, on a control plane whose clusters are all away."""

from __future__ import annotations

import re
from typing import Any

import pytest

from backend.domain.tenants.stream_records import RecordApplied, RecordApplyFailed
from tests.browser.distribution.test_losses_page import lose
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.grouping import some_groups
from tests.support.console.switching import client
from tests.support.console.visitors import API_PROD, PROD, Visitor, head, record, rows, said, visitor
from tests.support.database.postgres import Database

ORDERS, ITEMS = "acme/retail/prod/orders", "/tenants/globex/shop/prod/items"
PAGE = f"{PROD}/orders"
TABS = ("", "/-groups", "/-schema", "/-partitions", "/-settings", "/-history")
BLOCKS = ("/-applied", "/-figures", "/-groups/-live", "/-partitions/-figures")


@pytest.fixture
def member(acme: Console) -> Visitor:
    return visitor(acme, "member")


def applied(database: Database, cluster: str = "c1", **more: Any) -> None:
    """Record that a worker created the topic of orders on a cluster."""
    place = {"instance": "retail", "environment": "prod", "stream": "orders", "cluster": cluster}
    record(database, RecordApplied(**{**place, "topic_id": f"t-{cluster}", "replication_factor": 1, **more}))


def tabs(text: str) -> dict[str, bool]:
    """Return the labels of the tabs that are links, each with whether it is the one shown."""
    bar = text.partition('<nav class="tabs" aria-label="Stream">')[2].partition("</nav>")[0]
    return {
        label: bool(here) for here, label in re.findall(r'<a href="[^"]+"( aria-current="page")?>(\w+)</a>', bar)
    }


@some_now("tab", TABS, now=(0, 3))
def test_each_tab_has_its_own_address_and_leads_to_the_others(member: Visitor, tab: str) -> None:
    page = member.get(PAGE + tab)
    assert page.status_code == 200
    shown = tabs(page.text)
    assert list(shown) == ["Overview", "Messages", "Groups", "Schema", "Partitions", "Settings", "History"]
    assert [label for label, here in shown.items() if here] == [
        (tab.removeprefix("/-") or "overview").capitalize()
    ]
    assert "Change" in said(page) and "owner of acme" in said(page)


def test_a_tab_that_the_viewer_may_not_open_says_why(acme: Console) -> None:
    page = visitor(acme, "viewer").get(PAGE)
    assert "Messages" not in tabs(page.text)
    assert '<span class="off" aria-disabled="true">Messages</span>' in page.text
    assert "this needs messages:read" in said(page).lower()


@some_now("tab", (*TABS, *BLOCKS), now=(1, 7))
def test_anothers_stream_is_unknown_on_every_tab(acme: Console, tab: str) -> None:
    stranger = visitor(acme, "stranger")
    theirs, none = stranger.get(PAGE + tab), stranger.get(f"/tenants/nobody/retail/prod/orders{tab}")
    assert theirs.status_code == none.status_code == 404
    assert said(theirs).replace("acme", "nobody") == said(none)
    assert visitor(acme, "member").get(f"{PROD}/missing{tab}").status_code == 404


def test_figures_name_clusters_that_are_away_and_topics_that_are_not_there(
    acme: Console, database: Database, member: Visitor
) -> None:
    frame = member.get(PAGE)
    assert f'hx-get="{PAGE}/-figures" hx-trigger="load, every 15s"' in frame.text
    assert 'id="live"' in frame.text and 'id="live"' in member.get(f"{PAGE}/-groups").text
    assert f'<a href="{PAGE}?figures=1">Load figures</a>' in frame.text
    block = member.get(f"{PAGE}/-figures")
    assert "<html" not in block.text
    assert [f"c{number} is offline." in said(block) for number in (1, 2, 3)] == [True] * 3
    # Without JavaScript the same stands in the page; what a cluster said is not for tenants.
    whole, estate = member.get(f"{PAGE}?figures=1"), visitor(acme, "viewer").get(f"{PAGE}?figures=1")
    assert "c1 is offline." in said(whole) and "Load figures" not in whole.text
    assert "c1 is offline: " in said(estate)
    listed = acme.rest.ok("GET", f"{API_PROD}/streams/orders/figures")
    assert [(each["cluster"], each["problem"], each["records"]) for each in listed["items"]] == [
        (f"c{number}", f"c{number} is offline", None) for number in (1, 2, 3)
    ]
    assert "c1 is offline." in said(member.get(f"{PAGE}/-partitions?figures=1"))


def test_producers_and_consumers_are_those_that_are_known(
    acme: Console, database: Database, member: Visitor
) -> None:
    empty = said(member.get(PAGE))
    assert "No application may produce here" in empty and "No consumer group reads this stream" in empty
    acme.rest.ok(
        "POST", f"{API_PROD}/applications", {"name": "billing", "consumes": [ORDERS], "produces": [ORDERS]}
    )
    below = "/tenants/globex/instances/shop/environments/prod/applications"
    acme.rest.ok("POST", below, {"name": "mirror", "consumes": [ORDERS]})
    asked = {
        "application": "globex/shop/prod/mirror",
        "stream": ORDERS,
        "operation": "consume",
        "decision": "grant",
    }
    acme.rest.ok("POST", "/tenants/acme/grants", asked)
    some_groups(database)
    client(database, "checkout-1")
    client(database, "reader-1", role="consumer")
    page = member.get(PAGE)
    text = said(page)
    assert "Applications that may produce acme/retail/prod/billing" in text
    assert "Producers of prod that report to discovery checkout-1 Kafka does not report" in text
    assert "reader-1" not in text
    assert "globex/shop/prod/mirror" in text
    assert 'href="/tenants/globex' not in page.text and f'href="{PROD}/-applications/billing"' in page.text
    assert "billing c1 Slower than producers" in text


def test_groups_of_the_stream_have_the_lag_of_the_stream(
    acme: Console, database: Database, member: Visitor
) -> None:
    some_groups(database)
    found = rows(member.get(f"{PAGE}/-groups"), "data-group")
    assert set(found) == {
        "c1/acme-retail-prod-billing", "c1/acme-retail-prod-audit", "c1/acme-retail-prod-search",
        "c1/acme-retail-prod-fraud-check", "c2/acme-retail-prod-billing",
    }  # fmt: skip
    assert found["c1/acme-retail-prod-billing"].startswith("billing acme/retail/prod c1 Stable 2 4 4,816 480/s")
    block = member.get(f"{PAGE}/-groups/-live")
    assert "<html" not in block.text and rows(block, "data-group") == found
    assert rows(visitor(acme, "stranger").get(f"{ITEMS}/-groups"), "data-group").keys() == {
        "c1/globex-shop-prod-stock"
    }


def test_settings_are_those_of_the_declaration_and_of_the_clusters(acme: Console, member: Visitor) -> None:
    before = head(acme)["position"]
    acme.rest.ok(
        "PATCH", f"{API_PROD}/streams/orders", {"retention_ms": 86_400_000, "config": {"segment.ms": "60000"}}
    )
    page = member.get(f"{PAGE}/-settings")
    declared = rows(page, "data-declared")
    assert declared["retention.ms"] == "retention.ms 86400000 not observed yet"
    assert declared["segment.ms"] == "segment.ms 60000 not observed yet"
    assert "Retention 1 d" in said(page)
    assert set(rows(page, "data-replication")) == {"c1", "c2", "c3"}
    then = member.get(f"{PAGE}/-settings?at={before}")
    assert "Retention 7 d" in said(then) and "data-declared" not in then.text


def test_history_has_the_events_of_this_stream_alone(acme: Console, database: Database, member: Visitor) -> None:
    acme.rest.ok("POST", f"{API_PROD}/streams", {"name": "other"})
    applied(database)
    place = {"instance": "retail", "environment": "prod", "stream": "orders", "cluster": "c2"}
    record(database, RecordApplyFailed(**place, reason="not enough brokers"))
    between = head(acme)["position"]
    acme.rest.ok("PATCH", f"{API_PROD}/streams/orders", {"retention_ms": 1_209_600_000})
    acme.rest.ok("POST", f"{API_PROD}/applications", {"name": "billing", "consumes": [ORDERS]})
    lose(database, 40, 44)

    def sentences(visitor: Visitor, query: str = "") -> list[str]:
        page = visitor.get(f"{PAGE}/-history{query}")
        return re.findall(r'<td class="sentence">([^<]*)', page.text)

    own = [
        "acme/retail/prod/billing may consume: acme/retail/prod/orders",
        "acme/retail/prod/billing requests access to consume: acme/retail/prod/orders",
        "Stream acme/retail/prod/orders changed: retention: 7 days → 14 days",
        "acme/retail/prod/orders could not be applied on c2: not enough brokers",
        "Topic of acme/retail/prod/orders created on c1",
        "Stream acme/retail/prod/orders declared, 4 partitions",
    ]
    assert sentences(member) == own
    seen = sentences(visitor(acme, "viewer"))
    assert len(seen) > len(own) and seen[-len(own) :] == own  # with the lost records, which tenants may not read
    assert sentences(member, f"?before={between}") == own[-2:]
    assert sentences(member, f"?at={between}") == own[-3:]


def test_one_who_declares_a_stream_chooses_its_environment_first(acme: Console, member: Visitor) -> None:
    assert 'href="/tenants/-stream">Declare stream</a>' in member.get("/tenants").text
    only = member.get("/tenants/-stream")
    assert (only.status_code, only.headers["location"]) == (303, f"{PROD}/-new")
    operator = visitor(acme, "operator")
    page = operator.get("/tenants/-stream")
    assert f'href="{PROD}/-new"' in page.text and 'href="/tenants/globex/shop/prod/-new"' in page.text
    assert operator.get("/tenants/-stream?find=glob prod").headers["location"] == "/tenants/globex/shop/prod/-new"
    assert "No environment has “none”" in said(operator.get("/tenants/-stream?find=none"))
    viewer = visitor(acme, "viewer")
    assert viewer.get("/tenants/-stream").status_code == 403
    assert "/tenants/-stream" not in viewer.get("/tenants").text
