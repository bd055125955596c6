"""Pages of consumer groups: the list, one group on every cluster, and the export; each tenant sees its own."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime

import httpx2
import pytest

from backend.domain.offsets.group_diagnosis import CODES
from backend.domain.switch.cluster_switch import Phase
from backend.queries.offsets import group_store
from backend.web.offsets.group_words import LABELS
from tests.browser.offsets.test_offsets_page import committed
from tests.support.console.consoles import Console
from tests.support.console.grouping import ITEMS, ORDERS, OTHERS, group, observed, of_globex, partition
from tests.support.console.switching import commands, start, to
from tests.support.console.visitors import Visitor, rows, said, visitor
from tests.support.database.postgres import Database

PAGE = "/groups"
BILLING = "/groups/-of?cluster=c1&group=acme-retail-prod-billing"


def shown(page: httpx2.Response) -> list[str]:
    return re.findall(r'<tr data-group="([^"]*)"', page.text)


def test_before_and_after_the_first_observation_the_empty_list_says_what_to_do(
    acme: Console, database: Database
) -> None:
    viewer = visitor(acme, "viewer")
    assert "Consumer groups have not been observed yet." in said(viewer.get(PAGE))
    with database.engine.begin() as connection:
        group_store.store_groups(connection, "c1", [], datetime.now(UTC))
    assert "No consumer groups yet. Start a consumer with a group.id" in said(viewer.get(PAGE))


def test_each_group_with_its_lag_and_the_reason(acme: Console, database: Database) -> None:
    observed(
        database,
        group(),
        group("idle", members=(), partitions=(partition(0, member=None, records_per_second=0.0),)),
        group("fast", partitions=(partition(0, lag_records=0, time_lag_ms=0),)),
    )
    page = visitor(acme, "viewer").get(PAGE)
    assert shown(page) == ["c1/acme-retail-prod-billing", "c1/acme-retail-prod-idle", "c1/acme-retail-prod-fast"]
    lines = rows(page, "data-group")
    assert lines["c1/acme-retail-prod-billing"] == (
        "billing acme/retail/prod c1 Stable 1 2,408 – 240/s 1 min 35 s Slower than producers Slower than its "
        "producers: it reads 240 records/s, 600 records/s are written, and 2,408 records wait."
    )
    assert "No members" in lines["c1/acme-retail-prod-idle"] and "1,204 records wait." in said(page)
    assert lines["c1/acme-retail-prod-fast"].endswith("In time"), "the healthy ones need no sentence"


def test_groups_are_found_by_name_stream_cluster_and_diagnosis(acme: Console, database: Database) -> None:
    observed(database, group(), group(cluster="c2", members=(), partitions=()), of_globex())
    viewer = visitor(acme, "viewer")
    assert shown(viewer.get(f"{PAGE}?text=BILL&order=name")) == [
        "c1/acme-retail-prod-billing",
        "c2/acme-retail-prod-billing",
    ]
    assert shown(viewer.get(f"{PAGE}?stream={ITEMS}")) == ["c1/globex-shop-prod-stock"]
    assert shown(viewer.get(f"{PAGE}?cluster=c2")) == ["c2/acme-retail-prod-billing"]
    assert shown(viewer.get(f"{PAGE}?diagnosis=in-time")) == ["c2/acme-retail-prod-billing"]
    nothing = viewer.get(f"{PAGE}?text=%25")
    assert shown(nothing) == [] and "No consumer groups match the filter." in said(nothing)


@pytest.mark.parametrize(
    ("order", "heading", "first"),
    [
        ("sort=-name", "Group", "few"),
        ("sort=lag", "Lag (records)", "many"),
        ("order=name&sort=-lag", "Lag", "many"),
    ],
)
def test_rows_are_in_the_order_that_the_heading_tells(
    acme: Console, database: Database, order: str, heading: str, first: str
) -> None:
    observed(database, group("many"), group("few", partitions=(partition(0),)))
    page = visitor(acme, "viewer").get(f"{PAGE}?{order}")
    sorted_by = re.search(r'<th[^>]*aria-sort="[^"]*"[^>]*>(.*?)</th>', page.text, re.DOTALL)
    assert sorted_by is not None and heading in sorted_by[1]
    assert shown(page)[0] == f"c1/acme-retail-prod-{first}"


def test_pages_go_on_where_the_last_ended(acme: Console, database: Database) -> None:
    observed(database, *(group(f"g{number:03}", partitions=()) for number in range(130)))
    viewer = visitor(acme, "viewer")
    found: list[str] = []
    address: str | None = f"{PAGE}?order=name"
    while address:
        page = viewer.get(address)
        found += shown(page)
        link = re.search(r'<a href="([^"]*)">Next page', page.text)
        address = link[1].replace("&amp;", "&") if link else None
    assert found == [f"c1/acme-retail-prod-g{number:03}" for number in range(130)]


def test_a_failed_observation_is_told_with_its_reason_to_those_who_see_the_estate(
    acme: Console, database: Database
) -> None:
    observed(database, group())
    with database.engine.begin() as connection:
        group_store.store_failure(connection, "c1", "broker 1 does not respond")
    assert "The groups of c1 are not observed: broker 1 does not respond." in said(
        visitor(acme, "viewer").get(PAGE)
    )
    tenant = said(visitor(acme, "member").get(PAGE))
    assert "The groups of c1 are not observed." in tenant and "broker 1" not in tenant


def test_one_group_with_members_partitions_and_where_it_goes_on(acme: Console, database: Database) -> None:
    observed(database, group(), group(cluster="c2", members=(), partitions=()))
    committed(database, ORDERS, "billing")
    page = visitor(acme, "operator").get(BILLING)
    text = said(page)
    assert "Slower than producers Slower than its producers: it reads 240 records/s" in text
    assert "billing-7 10.1.2.3 2 orders 0, 1 m-1" in text
    row = "34,988 36,192 1,204 120/s 300/s 1 min 35 s 2026-11-28 11:59:56 billing-7 on 10.1.2.3 Messages Reset"
    assert row in text
    assert rows(page, "data-cluster").keys() == {"c1", "c2"}
    assert "c2 1 of 1 12" in text, "what it would read again after a switch"
    assert "Lag of c1/acme-retail-prod-billing" in text, "a chart of the last day"
    reset = "/offsets/-reset?stream=acme%2Fretail%2Fprod%2Forders&amp;group=billing&amp;cluster=c1&amp;partition=1"
    assert reset in page.text
    assert "begin=offset&amp;offset=34988" in page.text


def test_the_form_of_a_row_has_it_all_filled_in_and_names_the_members(acme: Console, database: Database) -> None:
    observed(database, group())
    owner = visitor(acme, "owner")
    link = re.search(r'href="([^"]*partition=1)">Reset', owner.get(BILLING).text)
    assert link is not None
    form = owner.get(link[1].replace("&amp;", "&"))
    for name, value in (("stream", ORDERS), ("group", "billing"), ("partition", "1")):
        assert re.search(rf'name="{name}" value="{value}"', form.text), name
    assert re.search(r'<option value="c1" selected>c1', form.text)
    assert "billing has 1 member on c1: billing-7 on 10.1.2.3. Stop them first" in said(form)


def test_a_group_that_a_switch_holds_is_told_as_paused(acme: Console, database: Database) -> None:
    observed(database, group())
    commands(database, start("s1"), *map(to, (Phase.HOLDING, Phase.DRAINING)), switch="s1")
    viewer = visitor(acme, "viewer")
    assert "Paused by switch" not in said(viewer.get(BILLING)), "only producers hold"
    commands(database, to(Phase.CLOSING), switch="s1")
    assert "Paused by a switch Paused by switch 1:" in said(viewer.get(BILLING))
    assert "Paused by switch s1:" in said(visitor(acme, "owner").get(BILLING)), "a number would count all switches"
    assert shown(visitor(acme, "operator").get(f"{PAGE}?diagnosis=paused-by-switch")) == [
        "c1/acme-retail-prod-billing"
    ]


def test_a_tenant_sees_its_own_groups_and_no_other(acme: Console, database: Database) -> None:
    observed(database, group(), of_globex())
    owner = visitor(acme, "owner")
    for path in (PAGE, f"{PAGE}/-live", f"{PAGE}/-export"):
        page = owner.get(path)
        text = page.text
        assert page.status_code == 200
        assert not [word for word in ("globex", "stock", "items-reader", "10.9.9.9") if word in text], path
    for path in (f"{PAGE}?text=stock", f"{PAGE}?stream={ITEMS}", f"{PAGE}?cluster=c1&order=name&text=globex"):
        assert shown(owner.get(path)) == [], path
    for path in ("/groups/-of", "/groups/-of/-live"):
        there = owner.get(f"{path}?cluster=c1&group=globex-shop-prod-stock")
        nowhere = owner.get(f"{path}?cluster=c1&group=globex-shop-prod-nothing")
        assert there.status_code == nowhere.status_code == 404
        assert "is idle" not in said(there) and "items-reader" not in there.text
    assert visitor(acme, "stranger").get(BILLING).status_code == 404


def test_a_reader_of_a_shared_stream_is_shown_without_its_hosts(acme: Console, database: Database) -> None:
    reads_ours = group(
        "stock",
        members=(OTHERS,),
        partitions=(partition(0, member="m-9"), partition(3, stream=ITEMS, member="m-9")),
        technical_group="globex-shop-prod-stock",
        place="globex/shop/prod",
    )
    observed(database, reads_ours)
    page = visitor(acme, "owner").get("/groups/-of?cluster=c1&group=globex-shop-prod-stock")
    text = said(page)
    assert "The members belong to another tenant's group" in text and ORDERS in page.text
    assert "Last 24 hours" not in text, "the history is a sum over streams of both"
    assert not [word for word in (ITEMS, "10.9.9.9", "items-reader", "Reset</a>") if word in page.text]


def test_the_export_has_a_line_for_each_partition(acme: Console, database: Database) -> None:
    observed(
        database,
        group("=1+1"),
        group("idle", members=(), partitions=(partition(2, member=None, records_per_second=0.0),)),
    )
    answer = visitor(acme, "viewer").get(f"{PAGE}/-export?cluster=c1")
    assert re.fullmatch(r'attachment; filename="groups-\d{8}-\d{6}\.csv"', answer.headers["content-disposition"])
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["group"], line["partition"], line["lag_records"]) for line in lines] == [
        ("'=1+1", "0", "1204"),
        ("'=1+1", "1", "1204"),
        ("idle", "2", "1204"),
    ]
    assert (lines[0]["client_id"], lines[0]["host"]) == ("billing-7", "10.1.2.3")
    assert [line["diagnosis"] for line in lines] == [
        "slower-than-producers",
        "slower-than-producers",
        "no-members",
    ]


def test_the_export_of_one_group_has_no_other(acme: Console, database: Database) -> None:
    observed(database, group("orders"), group("orders-2"), group("eu-orders"))
    viewer = visitor(acme, "viewer")
    link = re.search(r'href="(/groups/-export[^"]*)"', viewer.get(BILLING.replace("billing", "orders")).text)
    assert link is not None
    lines = list(csv.DictReader(io.StringIO(viewer.get(link[1].replace("&amp;", "&")).text)))
    assert [(line["group"], line["partition"]) for line in lines] == [("orders", "0"), ("orders", "1")]


def test_every_diagnosis_has_a_label() -> None:
    assert LABELS.keys() == set(CODES)


def test_filters_offer_the_clusters_of_the_viewers_trees_only(acme: Console) -> None:
    acme.rest.ok("POST", "/tenants", {"name": "empty"})
    owner, newcomer = visitor(acme, "owner"), Visitor(acme, "newcomer", empty="owner")
    for path in (PAGE, "/offsets", "/offsets/-reset"):
        there, none = owner.get(path), newcomer.get(path)
        assert re.search(r"<option[^>]*>c1", there.text) and none.status_code == 200, path
        assert not re.search(r"<option[^>]*>c[0-9]", none.text), path
