"""Offsets page: committed offsets on every cluster, as far as the viewer may see them; the same as a file."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from backend.eventlog.engine import create_engine
from backend.queries.offsets import offset_translation
from backend.queries.offsets.offset_tables import applied_offsets, group_commits, groups_not_followed
from backend.queries.offsets.offset_translation import State, Waiting
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, rows, said, visitor
from tests.support.database.postgres import Database

PAGE = "/offsets"
ORDERS, ITEMS = "acme/retail/prod/orders", "globex/shop/prod/items"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def committed(database: Database, stream: str, group: str, partition: int = 0, **changed: Any) -> None:
    """Store a group's commit on c1, and its offset on c2 with 12 records to re-read."""
    of = {"stream": stream, "partition": partition, "group": group}
    commit = {
        **of,
        "cluster": "c1",
        "technical_group": f"acme-retail-prod-{group}",
        "committed_offset": 35_000,
        "committed_at_ms": 1_700_000_060_000,
        "timestamp_ms": 1_700_000_000_000,
        "safe_timestamp_ms": None,
        "vector": {"1": [1, 34]},
        "published_at_ms": 1_700_000_061_000,
    }
    done = {
        **of,
        "cluster": "c2",
        "technical_group": f"acme-retail-prod-{group}",
        "state": "applied",
        "reason": None,
        "origin_cluster": "c1",
        "generation": 1,
        "committed_at_ms": 1_700_000_060_000,
        "offset": 34_988,
        "mode": "margin",
        "re_read_bound": 12,
        "settled": True,
        "applied_at_ms": 1_700_000_062_000,
        **changed,
    }
    with database.engine.begin() as connection:
        connection.execute(sa.insert(group_commits).values(commit))
        connection.execute(sa.insert(applied_offsets).values(done))


def shown(page: httpx2.Response) -> list[str]:
    return re.findall(r'<tbody data-offset="([^"]*)"', page.text)


def test_without_any_it_says_how_they_come(acme: Console, viewer: Visitor) -> None:
    assert "No group has committed offsets yet. Start a consumer that commits" in said(viewer.get(PAGE))


def test_each_group_with_where_it_goes_on(acme: Console, viewer: Visitor, database: Database) -> None:
    committed(database, ORDERS, "billing")
    committed(
        database, ORDERS, "audit", state="has-members", reason="it reads there", offset=None, re_read_bound=None
    )
    page = viewer.get(PAGE)
    assert shown(page) == [f"c1/{ORDERS}/0/audit", f"c1/{ORDERS}/0/billing"]
    text = said(page)
    assert f"billing {ORDERS} 0 c1 35,000 2023-11-14 22:14:20 – committed by the group" in text
    assert "c2 34,988 set by Treeline 12 applied, margin" in text
    assert "c2 – set by Treeline – has-members, margin: it reads there" in text


def test_they_are_found_by_group_stream_and_cluster(acme: Console, viewer: Visitor, database: Database) -> None:
    committed(database, ORDERS, "billing")
    committed(database, ITEMS, "audit")
    assert shown(viewer.get(f"{PAGE}?group=audit")) == [f"c1/{ITEMS}/0/audit"]
    assert shown(viewer.get(f"{PAGE}?stream={ORDERS}")) == [f"c1/{ORDERS}/0/billing"]
    assert len(shown(viewer.get(f"{PAGE}?cluster=c1"))) == 2
    nothing = viewer.get(f"{PAGE}?cluster=c3")
    assert shown(nothing) == [] and "No committed offsets match the filter." in said(nothing)


def test_a_tenant_sees_its_own_and_no_other(acme: Console, database: Database) -> None:
    committed(database, ORDERS, "billing")
    committed(database, ITEMS, "audit")
    with database.engine.begin() as connection:
        other = {
            "cluster": "c1",
            "technical_group": "x",
            "topic": "t",
            "reason": "no stream",
            "seen_at": sa.func.now(),
        }
        connection.execute(sa.insert(groups_not_followed).values(other))
    owner = visitor(acme, "owner")
    for path in (PAGE, f"{PAGE}/-live", f"{PAGE}?stream={ITEMS}", f"{PAGE}/-export"):
        page = owner.get(path)
        assert page.status_code == 200 and ITEMS not in page.text.replace(f'value="{ITEMS}"', "")
        assert "no stream" not in page.text, "what is no tenant's is the estate's"
    assert "c1 x t no stream" in said(visitor(acme, "operator").get(PAGE))


def test_many_come_page_by_page_and_all_as_a_file(acme: Console, viewer: Visitor, database: Database) -> None:
    for partition in range(130):
        committed(database, ORDERS, "billing", partition)
    first = viewer.get(PAGE)
    following = re.search(r'href="(/offsets\?[^"]*)">Next page', first.text)
    assert following is not None and len(shown(first)) == 100
    second = viewer.get(following[1].replace("&amp;", "&"))
    assert len({*shown(first), *shown(second)}) == 130 and "hx-get" not in second.text
    exported = viewer.get(f"{PAGE}/-export?group=billing")
    assert exported.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert exported.headers["Content-Disposition"].startswith('attachment; filename="offsets-')
    lines = list(csv.DictReader(io.StringIO(exported.text)))
    assert [line["partition"] for line in lines] == [str(number) for number in range(130)]
    told = {"committed_on": "c1", "committed_offset": "35000", "cluster": "c2", "offset": "34988"}
    assert lines[0] == {**lines[0], **told, "re_read_bound": "12"}


def test_a_file_has_all_however_many(acme: Console, viewer: Visitor, database: Database) -> None:
    committed(database, ORDERS, "billing")
    number = sa.func.generate_series(1, 17_000).table_valued("n").render_derived()
    with database.engine.begin() as connection:
        for table in (group_commits, applied_offsets):
            row = [number.c.n if column.name == "partition" else column for column in table.columns]
            query = sa.select(*row).select_from(table).join(number, sa.true())
            connection.execute(sa.insert(table).from_select([column.name for column in table.columns], query))
    lines = viewer.get(f"{PAGE}/-export").text.splitlines()
    assert len(lines) == 1 + 17_001 and len(set(lines)) == len(lines)
    assert all(",c2,34988,margin,12,applied," in line for line in lines[1:])


@some_now(
    "query",
    ["after=x", "after=a/b/c", "after=c1/s/x/g", "group=%00", "stream=<script>", "cluster=%22"],
    now=(0, 4),
)
def test_what_nothing_can_be_called_is_no_error(acme: Console, viewer: Visitor, query: str) -> None:
    page = viewer.get(f"{PAGE}?{query}")
    assert page.status_code == 200 and "<script>" not in page.text.partition("<main>")[2]


@pytest.mark.nightly  # the same script follows in test_clusters_pages
def test_it_follows_by_itself(acme: Console, database: Database, open_page) -> None:
    page = open_page(acme, PAGE)
    committed(database, ORDERS, "billing")
    eventually(lambda: "35,000" in page.inner_text("main"), "the commit is shown")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, database: Database, open_page, folder: Path | None) -> None:
    committed(database, ORDERS, "billing")
    committed(database, ORDERS, "audit", state="has-members", reason="it has members there", re_read_bound=None)
    page = open_page(acme, PAGE)
    taken(page, "offsets", folder)
    assert rows(viewer_page(acme), "data-elsewhere")


def viewer_page(acme: Console) -> httpx2.Response:
    return acme.get(PAGE)


def test_what_commits_wait_for_is_told(acme: Console, database: Database) -> None:
    def tell(state: State, **waiting: Any) -> None:
        engine = create_engine(database.url)
        with engine.begin() as connection:
            offset_translation.write(connection, state, Waiting(**waiting))
        engine.dispose()

    operator = visitor(acme, "operator")
    tell(State.STARTING_SPARK, commits={"c1": 7})
    page = said(operator.get("/offsets"))
    assert "The Spark session is starting" in page and "7 commits are not translated yet" in page
    assert "Since " in page
    member = said(visitor(acme, "member").get("/offsets"))
    assert "The Spark session is starting" in member and "7 commits" not in member
    tell(State.IDLE)
    assert "Spark" not in said(operator.get("/offsets"))
