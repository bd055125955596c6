"""Charts of measures: what is drawn, for whom, and how it is read by keys and in words."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from playwright.sync_api import expect

from backend.queries.history.measure_tables import measure_samples
from backend.queries.offsets.group_store import store_groups
from backend.queries.offsets.observed_groups import GroupPartition, group_row
from tests.browser.console.test_accessibility import wrong
from tests.support.console.consoles import Console
from tests.support.console.measuring import measured
from tests.support.console.switching import COMPLETED, commands, start
from tests.support.console.visitors import Visitor, said, visitor
from tests.support.database.postgres import Database

PAGE = "/charts"
LAG, GROUP_LAG, BYTES = "edge.lag_records", "group.lag_records", "cluster.bytes_in_per_second"
ONE = f"{PAGE}?metric={LAG}&subject=c1:2"
MINE, THEIRS = "c1/acme-retail-prod-billing", "c1/globex-shop-prod-stock"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def charts(page: httpx2.Response) -> list[str]:
    """Return the sentences of the page's charts, in order."""
    return re.findall(r"-said\" hidden>([^<]*)</span>", page.text)


def group(name: str, stream: str) -> Any:
    """Return a group that reads one stream, as it is observed."""
    partition = GroupPartition(topic=stream.replace("/", "-"), stream=stream, partition=0, lag_records=1)
    return group_row(
        cluster="c1",
        technical_group=name,
        group=None,
        place=None,
        state="Stable",
        protocol="classic",
        members=(),
        partitions=[partition],
        observed_at=datetime.now(UTC),
    )


def groups_of_both(database: Database) -> None:
    """Store a group of each tenant, and its lags, and those of a distributor."""
    rows = [group(MINE[3:], "acme/retail/prod/orders"), group(THEIRS[3:], "globex/shop/prod/items")]
    with database.engine.begin() as connection:
        store_groups(connection, "c1", rows, datetime.now(UTC))
    values = {(GROUP_LAG, MINE): [5.0] * 10, (GROUP_LAG, THEIRS): [77.0] * 10, (LAG, "c1:2"): [3.0]}
    measured(database, values)


def test_one_chart_has_its_figures_in_words_and_its_points_in_a_table(viewer: Visitor, database: Database) -> None:
    measured(database, {(LAG, "c1:2"): [3.0, 1204.0, None, 7.0]})
    page = viewer.get(f"{ONE}&range=1h")
    assert page.status_code == 200 and 'href="/charts" aria-current="page"' in page.text
    (sentence,) = charts(page)
    assert re.fullmatch(r"Lag of c1:2, last hour: now 7 records, peak 1,204 records at \d\d:\d\d UTC", sentence)
    values = re.findall(r'<td class="number">([^<]*)</td></tr>', page.text)
    assert values[-4:] == ["3 records", "1,204 records", "–", "7 records"] and set(values[:-4]) == {"–"}
    assert "UTC</small>" in page.text and ">UTC</text>" in page.text, "the zone of its times"
    assert 'data-names-of="metric"' in page.text, "subjects of the chosen measure are suggested"
    # Of four minutes, one without a value: a line of two points, and a dot.
    assert len(re.findall(r'class="chart-line" d="M[^M]*"', page.text)) == 1
    assert len(re.findall(r'class="chart-dot"', page.text)) == 1


def test_events_are_marked_and_lead_to_the_timeline(acme: Console, viewer: Visitor, database: Database) -> None:
    measured(database, {(LAG, "c1:2"): [3.0, 4.0]})
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    page = viewer.get(ONE)
    found = re.findall(r'<a href="(/timeline/\d+)">([^<]*)</a>', page.text)
    assert [text for _, text in found] == ["Tree changed: 3 clusters", "c1 level 2 copies to c3 instead of c2"]
    assert viewer.get(found[1][0]).status_code == 200
    assert re.findall(r'class="chart-badge"><rect.*?<text[^>]*>([^<]*)</text>', page.text) == ["1–2"]


def test_without_a_subject_the_largest_come_first_and_a_filter_finds_the_others(
    viewer: Visitor, database: Database
) -> None:
    measured(database, {(LAG, f"c{n}:1"): [float(n), None] for n in range(30)})
    page = viewer.get(f"{PAGE}?metric={LAG}&range=1h")
    assert [sentence.partition(",")[0] for sentence in charts(page)] == [
        f"Lag of c{n}:1" for n in range(29, 5, -1)
    ]
    assert "Lag of distributors last hour, records · the 24 largest of 30, by their peaks in the l" in said(page)
    found = viewer.get(f"{PAGE}?metric={LAG}&filter=C1")
    assert len(charts(found)) == 11 and 'name="filter" value="C1"' in found.text
    assert "No subject of this measure contains “zebra”" in said(viewer.get(f"{PAGE}?metric={LAG}&filter=zebra"))


def test_among_more_than_are_shown_the_last_hour_decides(viewer: Visitor, database: Database) -> None:
    lately = {(LAG, f"c{n}:1"): [float(n), 0.0] for n in range(2, 25)}
    measured(database, {**lately, (LAG, "c0:1"): [7e6] + [None] * 70, (LAG, "c1:1"): [9e6] + [None] * 70})
    page = viewer.get(f"{PAGE}?metric={LAG}")
    # Without a value in the last hour, c0 comes last, and c1 has no room.
    expected = [f"Lag of c{n}:1" for n in (*range(24, 1, -1), 0)]
    assert [sentence.partition(",")[0] for sentence in charts(page)] == expected
    assert "the 24 largest of 25, by their peaks in the last hour" in said(page)
    # All charts are read where all are shown: the whole range decides.
    few = charts(viewer.get(f"{PAGE}?metric={LAG}&filter=c1"))
    assert len(few) == 11 and few[0].startswith("Lag of c1:1, last 24 hours")
    # The order is that of a minute ago; what is drawn is of now.
    more = sa.update(measure_samples).values({measure_samples.c["values"]: [1e6 + n for n in range(1, 101)]})
    with database.engine.begin() as connection:
        connection.execute(more)
    again = charts(viewer.get(f"{PAGE}/-live?metric={LAG}"))
    assert [sentence.partition(",")[0] for sentence in again] == expected
    assert [each for each in again if "now 1.0M records" not in each] == []


def test_users_of_tenants_see_their_groups_only(acme: Console, viewer: Visitor, database: Database) -> None:
    groups_of_both(database)
    owner = visitor(acme, "owner")
    page = owner.get(PAGE)
    assert [each.partition(",")[0] for each in charts(page)] == [f"Lag of {MINE}"]
    assert "globex" not in page.text and "edge." not in page.text and "c1:2" not in page.text
    for part in ("", "/-live", "/figure/-live", "/-export"):
        assert owner.get(f"{PAGE}{part}?metric={GROUP_LAG}&subject={MINE}").status_code == 200, part
        theirs = owner.get(f"{PAGE}{part}?metric={GROUP_LAG}&subject={THEIRS}")
        unknown = owner.get(f"{PAGE}{part}?metric={GROUP_LAG}&subject=c1/nobodys")
        assert theirs.status_code == unknown.status_code == 404, part
        assert said(theirs).replace(THEIRS, "") == said(unknown).replace("c1/nobodys", "")
        assert owner.get(f"{PAGE}{part}?metric={LAG}&subject=c1:2").status_code == 403, part
    assert len(charts(viewer.get(f"{PAGE}?metric={GROUP_LAG}"))) == 2
    assert visitor(acme, "operator").get(ONE).status_code == 200


def test_the_table_of_groups_has_lines_only_of_groups_that_the_viewer_sees_as_a_whole(
    acme: Console, viewer: Visitor, database: Database
) -> None:
    groups_of_both(database)
    owner, line = visitor(acme, "owner"), f"Lag of {MINE}, last hour: now 5 records"
    assert line in owner.get("/groups").text
    row = group(MINE[3:], "acme/retail/prod/orders")
    topics = [*row.partitions, GroupPartition(topic="audit.internal", partition=0, lag_records=9)]
    with database.engine.begin() as connection:
        own = replace(row, place="acme/retail/prod", partitions=topics)
        store_groups(connection, "c1", [own], datetime.now(UTC))
    assert MINE[3:] in (text := owner.get("/groups").text) and "last hour: now" not in text
    assert line in viewer.get("/groups").text


def test_what_is_unknown_is_said_with_what_to_do(viewer: Visitor) -> None:
    for query, status, text in (
        ("metric=edge.lag", 422, "There is no measure 'edge.lag'. Open Charts, and choose one from its list."),
        ("range=1y", 422, "There is no range '1y'. Choose one of 1h, 24h, 7d."),
        (f"metric={LAG}&subject=c9:9", 404, "Subjects are of the form CLUSTER:LEVEL; open Charts without one"),
    ):
        page = viewer.get(f"{PAGE}?{query}")
        assert page.status_code == status and text in said(page), query


def test_before_the_first_minute_it_says_when_values_come(viewer: Visitor) -> None:
    assert "The history begins at the first minute after the control plane has started" in said(viewer.get(PAGE))
    assert "No switch has completed in this time" in said(viewer.get(f"{PAGE}?metric=switch.hold_ms"))
    # It exists, and has not been sampled.
    assert charts(viewer.get(ONE)) == ["Lag of c1:2, last 24 hours: no values"]


def test_another_measure_keeps_the_subject_only_if_it_has_one(viewer: Visitor) -> None:
    before = f"&range=7d&before={LAG}"
    kept = viewer.get(f"{PAGE}?metric=edge.wait_seconds&subject=c1:2{before}")
    assert kept.headers["location"] == "/charts?metric=edge.wait_seconds&subject=c1%3A2&range=7d"
    dropped = viewer.get(f"{PAGE}?metric={BYTES}&subject=c1:2{before}")
    assert (dropped.status_code, dropped.headers["location"]) == (303, f"/charts?metric={BYTES}&range=7d")
    # A wrong subject of the same measure is told.
    assert viewer.get(f"{PAGE}?metric={LAG}&subject=c9:9{before}").headers["location"].endswith("c9%3A9&range=7d")


def test_exports_have_the_points(acme: Console, viewer: Visitor, database: Database) -> None:
    measured(database, {(LAG, "c1:2"): [3.0, None, 1.5]})
    page = viewer.get(f"{ONE}&range=1h")
    csv_link, json_link = re.findall(r'href="([^"]*)"[^>]*>(?:CSV|JSON)</a>', page.text)
    lines = viewer.get(csv_link.replace("&amp;", "&")).text.splitlines()
    assert lines[0] == f"time,{LAG}" and [line.partition(",")[2] for line in lines[-3:]] == ["3.0", "", "1.5"]
    points = viewer.get(json_link.replace("&amp;", "&")).json()["points"]
    assert [value for _, value in points[-3:]] == [3.0, None, 1.5] and len(points) == len(lines) - 1 == 60


def test_other_pages_show_the_last_hour_and_day(acme: Console, viewer: Visitor, database: Database) -> None:
    measured(database, {(LAG, "c1:2"): [8.0] * 4 + [4.0] * 4, (BYTES, "c1"): [1e6] * 4 + [2e6] * 4})
    commands(database, start("s0"), *COMPLETED[1:], switch="s0")
    text = viewer.get("/tree").text
    assert 'aria-label="Lag of c1:2, last hour: now 4 records, peak 8 records"' in text
    assert 'href="/charts?metric=edge.lag_records&amp;subject=c1%3A2' in text
    assert "last hour: now" not in viewer.get("/tree?at=9").text
    assert "Bytes appended to c1, last hour: now 2 MB/s, peak 2 MB/s" in viewer.get("/clusters").text
    found = charts(viewer.get("/clusters/c1"))
    assert [each.partition(",")[0] for each in found] == [
        "Bytes appended to c1",
        "Under-replicated partitions of c1",
    ]
    assert charts(viewer.get("/clusters/c1?at=9")) == charts(viewer.get("/switches?at=9")) == []
    assert charts(viewer.get("/switches"))[0].startswith(
        "Hold time of clients, all switches, last 7 days: last 812 ms"
    )


def test_it_is_read_by_keys_and_a_refresh_keeps_what_is_open(acme: Console, database: Database, open_page) -> None:
    measured(database, {(LAG, "c1:2"): [3.0, 1204.0, 7.0]})
    page = open_page(acme, f"{ONE}&range=1h")
    plot = page.locator("[data-plot]")
    plot.focus()
    for key, text in (("End", "7 records"), ("ArrowLeft", "1,204 records"), ("Home", "no value")):
        plot.press(key)
        expect(plot.locator("output")).to_have_text(re.compile(rf"^\d\d:\d\d UTC: {text}$"))
    plot.press("Escape")
    expect(plot.locator("output")).to_have_count(0)
    page.get_by_text("Show as a table").click()
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    page.evaluate(
        "htmx.ajax('GET', document.getElementById('cockpit').getAttribute('hx-get'),"
        " {source: '#cockpit', target: '#cockpit', swap: 'morph:outerHTML'})"
    )
    expect(page.get_by_text("c1 level 2 copies to c3")).to_be_visible()
    expect(page.get_by_role("cell", name="1,204 records")).to_be_visible()
    assert wrong(page) == []
