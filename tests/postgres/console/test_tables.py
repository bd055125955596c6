"""Tables of pages: sorted, filtered, paged, with chosen columns, as their address says."""

from __future__ import annotations

import html
import re

import httpx2
import pytest

from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, PROD, Visitor, rows, said, visitor

STREAMS = 120


def heads(page: httpx2.Response, table: str) -> list[str]:
    """Return the headings of a table, with their order."""
    found = re.search(rf'<table id="{table}".*?</thead>', page.text, re.DOTALL)
    assert found is not None, table
    cells = re.findall(r"<th ([^>]*)>(.*?)</th>", found[0], re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split()) for _, text in cells]


def link(page: httpx2.Response, text: str) -> str:
    """Return the address of the first link with this text."""
    found = re.search(rf'<a [^>]*?href="([^"]*)"[^>]*>{text}<', page.text)
    assert found is not None, text
    return html.unescape(found[1])


@pytest.fixture
def many(acme: Console) -> Console:
    """Return a console with 120 streams more in an environment."""
    for number in range(1, STREAMS + 1):
        body = {"name": f"s{number}", "partitions": 1 + number % 7, "retention_ms": 60_000 * number}
        acme.rest.ok("POST", f"{API_PROD}/streams", body)
    return acme


def test_streams_are_sorted_paged_filtered_and_shown_with_other_columns(many: Console) -> None:
    owner = visitor(many, "owner")
    first = owner.get(PROD)
    shown = list(rows(first, "data-stream"))
    assert shown[:3] == ["orders", "s1", "s2"] and len(shown) == 50
    assert "Rows 1–50 of 121" in said(first)
    second = owner.get(link(first, "Next"))
    assert next(iter(rows(second, "data-stream"))) == "s50", "s49 was the last of the first page"

    most = owner.get(link(first, "Partitions"))
    assert "Partitions ↓" in heads(most, "stream-table")
    assert list(rows(most, "data-stream"))[:2] == ["s6", "s13"], "those of 7 partitions, by name"
    found = owner.get(f"{link(most, 'Partitions')}&filter=s11&rows=25")
    assert list(rows(found, "data-stream"))[:2] == ["s112", "s119"], "those of 1 partition"
    assert "Rows 1–11 of 11 that match, 121 in all" in said(found)
    block = owner.get(f"{PROD}/-streams?sort=partitions&filter=s11&rows=25")
    assert list(rows(block, "data-stream")) == list(rows(found, "data-stream"))
    assert f"{PROD}/-streams?sort=partitions&amp;filter=s11&amp;rows=25" in block.text, "the next refresh, too"
    assert link(block, "Clear filter") == f"{PROD}?sort=partitions&rows=25", "a link of the page, not of the block"

    columns = owner.get(f"{PROD}?columns=name&columns=retention&sort=-retention")
    assert heads(columns, "stream-table") == ["Stream", "Retention ↓"]
    assert rows(columns, "data-stream")["s120"] == "s120 2 h"
    assert owner.get(f"{PROD}?filter=pending").text.count("data-stream=") == 50
    assert "No streams match “failed”" in said(owner.get(f"{PROD}?filter=failed"))
    assert "orders" in rows(owner.get(f"{PROD}?at=18"), "data-stream")


@some_now(
    "parameters, words",
    [
        ("sort=nope", "The table cannot be sorted by “nope”; it is sorted by Number."),
        ("page=9&rows=7&columns=foo", "A page cannot have “7” rows"),
        ("page=9", "There is no page 9; the last one, page 1, is shown."),
        ("filter=<b>", "No clusters match “<b>”"),
    ],
    now=(0, 1),
)
def test_a_wrong_address_shows_the_usual_table_and_says_what_it_ignored(
    acme: Console, parameters: str, words: str
) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get(f"/clusters?{parameters}")
    assert page.status_code == 200
    assert words in said(page)
    assert "<b>" not in page.text.partition("<main>")[2]


def test_clusters_keep_their_order_when_the_page_updates(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    for path in ("/clusters", "/clusters/-live"):
        page = viewer.get(f"{path}?sort=-name&columns=zone")
        assert list(rows(page, "data-cluster")) == ["c3", "c2", "c1"]
        assert heads(page, "clusters") == ["Name ↓", "Zone"]
        assert 'hx-get="/clusters/-live?sort=-name&amp;columns=name,zone"' in page.text
    assert "Bytes in" not in said(viewer.get("/clusters?at=5"))


def test_two_tables_of_a_page_have_parameters_of_their_own(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/switches?places-sort=-name&places-filter=prod")
    assert list(rows(page, "data-place")) == ["globex/shop/prod", "acme/retail/prod"]
    member = viewer.get("/tenants/acme?members-filter=nobody")
    assert "No members" in said(member)


def test_a_form_s_answer_links_to_the_page_that_it_shows(acme: Console) -> None:
    admin = Visitor(acme, "root", "admin")
    shown = admin.send("/users/root/tokens", token="t2", days="", step="confirm", once="x" * 20)
    assert shown.status_code == 200 and "t2" in rows(shown, "data-token")
    assert link(shown, "Name").startswith("/users/root?")


@pytest.mark.parametrize("form", ["order=name", "sort=name"])
def test_groups_are_sorted_by_name_under_the_former_name_of_the_parameter_too(acme: Console, form: str) -> None:
    page = visitor(acme, "viewer").get(f"/groups?{form}&cluster=c1&after_cluster=c1&after_group=a")
    assert page.status_code == 200
    assert 'name="sort" value="name"' in page.text
    assert "&amp;sort=name" in page.text and "order=" not in page.text
    assert "after_" not in page.text, "another order begins at the first page"


def test_columns_of_what_the_database_pages_are_chosen_too(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/audit?columns=time&columns=action&kind=TenantCreated")
    assert heads(page, "audit") == ["Time (UTC)", "Action"]
    assert 'name="columns" value="time,action"' in page.text
    assert "Origin" in heads(Visitor(acme, "root", "admin").get("/audit"), "audit")
    assert "There is no column “origin” here" in said(viewer.get("/audit?columns=time,origin"))


def test_the_tree_keeps_a_watcher_s_own_order_of_distributors(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/tree?sort=-cluster&filter=L2")
    assert list(rows(page, "data-row")) == ["c3:2", "c2:2", "c1:2"]
    assert 'sse-connect="/tree/live?sort=-cluster&amp;filter=L2"' in page.text
    with viewer.client.stream("GET", "/tree/live?sort=-cluster&filter=L2") as answer:
        lines = answer.iter_lines()
        assert "event: distributors" in lines  # it goes on to that line
        block = []
        for line in lines:
            if not line:
                break
            block.append(line)
    assert re.findall(r'data-row="([^"]*)"', "".join(block)) == ["c3:2", "c2:2", "c1:2"]


def test_the_tree_s_table_and_drawing_keep_each_other_s_parameters(acme: Console) -> None:
    viewer = visitor(acme, "viewer")
    page = viewer.get("/tree?collapsed=r1&open=c1&sort=-cluster")
    own = list(rows(page, "data-row"))
    assert own[0].startswith("c3") and own[-1].startswith("c1")
    assert link(page, "Level") == "/tree?collapsed=r1&open=c1&sort=level"
    expand = 'href="/tree?collapsed=none&amp;open=c1&amp;sort=-cluster"'
    assert expand in page.text
    drawer = viewer.get("/tree/-drawer?collapsed=r1&open=c1&sort=-cluster")
    assert link(drawer, "Close") == "/tree?collapsed=r1&sort=-cluster"

    live = re.search(r'sse-connect="([^"]*)"', page.text)
    assert live is not None and html.unescape(live[1]) == "/tree/live?collapsed=r1&sort=-cluster"
    news: dict[str, list[str]] = {"": []}
    event = ""
    with viewer.client.stream("GET", html.unescape(live[1])) as stream:
        for line in stream.iter_lines():
            field, _, value = line.partition(": ")
            event = value if field == "event" else event
            news.setdefault(event, []).append(line)
            if event == "beat" and "diagram" in news:
                break
    table, drawing = "\n".join(news["distributors"]), "\n".join(news["diagram"])
    assert re.findall('data-row="([^"]*)"', table) == own, "the watcher's own order"
    assert 'href="/tree?collapsed=r1&amp;sort=level"' in table
    assert 'href="/tree?collapsed=none&amp;sort=-cluster"' in drawing
