"""The tree editor without a browser: steps, proof, and protection against concurrent changes."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import TREE, Visitor, add_clusters, code, hidden, rows, said, visitor
from tests.support.database.postgres import Database

EDIT = "/tree/edit"


@pytest.fixture
def operator(acme: Console) -> Visitor:
    acme.rest.ok("POST", "/clusters", {"name": "c4", "bootstrap_servers": "127.0.0.1:8", "accept_offline": True})
    return visitor(acme, "operator")


def step(who: Visitor, page: httpx2.Response, do: str, node: str, argument: str = "") -> httpx2.Response:
    """Send one of the page's forms, and follow the redirect."""
    state = {name: value for name, value in hidden(page).items() if name in ("from", "steps", "done")}
    given = {**state, "do": do, "node": node, **({"with": argument} if argument else {})}
    answer = who.client.get(EDIT, params=given)
    assert answer.status_code == 303, said(answer)
    return who.get(answer.headers["location"].partition("#")[0])


def saved(who: Visitor, page: httpx2.Response) -> tuple[httpx2.Response, httpx2.Response]:
    """Return the preview, and the answer to its confirmation."""
    preview = who.client.post(EDIT, data={**hidden(page), "step": "preview"})
    assert preview.status_code == 200, said(preview)
    return preview, who.client.post(EDIT, data={**hidden(preview), "step": "confirm"})


def lists(page: httpx2.Response) -> dict[str, list[str]]:
    """Return the lists of effects."""
    found = re.findall(r'<ul class="items" data-list="([^"]*)">(.*?)</ul>', page.text, re.DOTALL)
    return {
        html.unescape(name): [html.unescape(line) for line in re.findall("<li>(.*?)</li>", text)]
        for name, text in found
    }


def nodes(page: httpx2.Response) -> list[str]:
    """Return the labels of the nodes, by place."""
    found = re.findall(r'id="node-(r[01]*)".*?aria-label="([^"]*)"', page.text, re.DOTALL)
    return [f"{place} {html.unescape(label)}" for place, label in sorted(found)]


def test_a_cluster_joins_with_all_that_it_does_told_before_it_is_set(acme: Console, operator: Visitor) -> None:
    page = operator.get(EDIT)
    assert nodes(page) == ["r level 2", "r0 c1 primary", "r1 level 1", "r10 c2 leaf", "r11 c3 leaf"]
    assert "Nothing would change" in said(page) and "6 of 6 pairs" in said(page)
    page = step(operator, page, "add", "r0", "c4")
    assert nodes(page)[1:4] == ["r0 level 1", "r00 c1 primary", "r01 c4 joins"]
    assert "Once it is set: c4 joins; 3 distributors start; " in said(page)
    assert 'data-proven="yes"' in page.text and "12 of 12 pairs" in said(page)
    assert rows(page, "data-origin")["c4"] == "c4 1 by 1 copy · its own 2 by 2 copies 1 by 1 copy"
    preview, done = saved(operator, page)
    told = lists(preview)
    assert told["Distributors that start (3)"] == ["c1:1 → c4", "c4:1 → c1", "c4:2 → c3"]
    assert told["Distributors that change targets (1)"] == ["c3:2 → c4 instead of c1"]
    assert told["Logs that are read again (5)"] == [
        "c4's log from the first record that c1 may lack: records of c3 and c4",
        "c1's log from its beginning, for c4, which is still empty: records of c1 and c2",
        "c3's log from its beginning, for c4, which is still empty: records of c3",
        "c3's log from the first record that c2 may lack: records of c4",
        "c4's log from the first record that c3 may lack: records of c4",
    ]
    fields = rows(preview, "data-field")
    assert fields["Tree"] == "Tree 2(c1, 1(c2, c3)) 2(1(c1, c4), 1(c2, c3))"
    assert "tree:\n  level: 2\n" in code(preview, "same-yaml") and "primary" not in code(preview, "same-yaml")
    assert code(preview, "same-command") == "treeline diff -f tree.yaml\ntreeline apply -f tree.yaml"
    assert "PUT" in code(preview, "same-curl") and "If-Match" in code(preview, "same-curl")
    assert (done.status_code, done.headers["location"]) == (303, "/tree")
    assert acme.rest.ok("GET", "/trees/main")["root"]["children"][0] == {
        "level": 1,
        "children": [{"cluster": "c1"}, {"cluster": "c4"}],
    }


def test_nothing_is_set_by_looking(acme: Console, operator: Visitor) -> None:
    before = acme.rest.ok("GET", "/events/head")
    step(operator, step(operator, operator.get(EDIT), "add", "r", "c4"), "swap", "r")
    assert acme.rest.ok("GET", "/events/head") == before


def test_what_is_wrong_stands_at_its_node_with_the_pairs_that_fail_and_a_way_out(operator: Visitor) -> None:
    page = step(operator, operator.get(EDIT), "level", "r1", "2")
    assert "r1 level 2. level 2 is not below its parent's, 2" in nodes(page)
    assert re.search(r'data-wrong="r1">.*level 2 is not below its parent', page.text)
    assert 'data-proven="no"' in page.text
    assert "would not get" in said(page) and "meet the mask of level 2" in said(page)
    assert "disabled" in page.text.partition('value="preview"')[2].partition(">")[0]
    refused = operator.client.post(EDIT, data={**hidden(page), "step": "preview"})
    assert refused.status_code == 422 and "is not below its parent" in said(refused)
    page = step(operator, page, "room", "r1")
    assert nodes(page)[0] == "r level 3" and 'data-proven="yes"' in page.text


def test_steps_are_taken_back_and_done_again_by_addresses(operator: Visitor) -> None:
    page = step(operator, step(operator, operator.get(EDIT), "swap", "r"), "add", "r1", "c4")
    undo, redo = (re.compile(rf'id="{name}" href="([^"]*)"') for name in ("undo", "redo"))
    assert redo.search(page.text) is None and "Swap the sides of level 2 over c1, c2, c3 Add c4 beside c1" in said(
        page
    )
    back = operator.get(html.unescape(undo.search(page.text)[1]))
    assert nodes(back)[-1] == "r1 c1 primary" and "undone" in said(back)
    again = operator.get(html.unescape(redo.search(back.text)[1]))
    assert nodes(again) == nodes(page)
    first = operator.get(html.unescape(undo.search(back.text)[1]))
    assert nodes(first)[1] == "r0 c1 primary" and undo.search(first.text) is None
    # Another step drops the undone ones.
    other = step(operator, back, "remove", "r00")
    assert redo.search(other.text) is None and "Remove c2" in said(other)


def test_a_tree_that_somebody_else_set_meanwhile_is_not_written_over(acme: Console, operator: Visitor) -> None:
    page = step(operator, operator.get(EDIT), "add", "r0", "c4")
    preview = operator.client.post(EDIT, data={**hidden(page), "step": "preview"})
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    late = operator.client.post(EDIT, data={**hidden(preview), "step": "confirm"})
    assert late.status_code == 412 and "the tree has changed since you opened this page" in said(late)
    assert "disabled" in late.text.partition('value="preview"')[2].partition(">")[0]
    found = re.search(r'<a href="([^"]*)">Apply my steps to the current tree', late.text)
    page = operator.get(html.unescape(found[1]))
    assert 'id="outdated"' not in page.text and "r01 c4 joins" in nodes(page)
    _, done = saved(operator, page)
    assert done.status_code == 303
    rows_now = acme.rest.ok("GET", "/trees/main/distributors")
    assert {(each["cluster"], each["level"], each["target"]) for each in rows_now} >= {("c1", 2, "c3")}


def test_a_step_that_no_longer_fits_is_told(acme: Console, operator: Visitor) -> None:
    page = step(operator, operator.get(EDIT), "remove", "r10")
    state = parse_qs(urlsplit(str(page.url)).query)
    acme.rest.ok("PUT", "/trees/main", {"level": 2, "children": [{"cluster": "c1"}, {"cluster": "c2"}]})
    late = operator.client.get(EDIT, params={"steps": state["steps"][0]})
    assert "step 1, “Remove r10”, does not fit: there is no node r10" in said(late)


@some_now(
    "query, told",
    [
        ("steps=fell:r", "is no step of an edit"),
        ("steps=swap:r:x", "is no step of an edit"),
        ("do=add&node=r0", "choose a value"),
        ("do=level&node=r&with=high", "a level is a whole number"),
        ("do=swap&node=x", "is no step of an edit"),
    ],
    now=(0, 3),
)
def test_what_is_no_step_is_told(operator: Visitor, query: str, told: str) -> None:
    answer = operator.client.get(f"{EDIT}?{query}")
    assert told in said(answer)


def test_a_primary_that_stays_is_not_chosen_and_one_that_leaves_is(acme: Console, operator: Visitor) -> None:
    page = operator.get(f"{EDIT}?node=r10")
    assert "Move the primary separately" in said(page) and 'id="act-primary"' not in page.text
    page = step(operator, page, "remove", "r0")
    assert "the primary cluster 'c1' is not a leaf of the tree" in said(page)
    page = step(operator, page, "primary", "r0", "c2")
    preview, done = saved(operator, page)
    assert rows(preview, "data-field")["Primary"] == "Primary c1 c2"
    assert "primary: c2" in code(preview, "same-yaml") and "?primary=c2" in code(preview, "same-curl")
    assert "It is unknown whether c1 has unreplicated records" in said(preview)
    assert done.status_code == 303 and acme.rest.ok("GET", "/trees/main")["primary_cluster"] == "c2"


def test_what_was_set_of_a_distributor_that_ends_is_told(acme: Console, operator: Visitor) -> None:
    acme.rest.ok("PATCH", "/trees/main/distributors/c2/1", {"paused": True})
    page = step(operator, operator.get(EDIT), "remove", "r11")
    assert "The settings of c2:1" in said(page)


def test_the_first_tree_is_begun_with_a_cluster(console: Console) -> None:
    who = visitor(console, "operator")
    assert "there are none yet. Add a cluster" in said(who.get(EDIT))
    add_clusters(console)
    empty = who.client.get(EDIT, params={"from": "0"})
    assert "No tree yet" in said(empty)


def test_a_first_tree_is_set(console: Console, database: Database) -> None:
    for name in ("c1", "c2", "c3"):
        console.rest.ok(
            "POST", "/clusters", {"name": name, "bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
        )
    who = visitor(console, "operator")
    page = step(who, who.get(EDIT), "begin", "r", "c1")
    assert "A single cluster has nothing to copy" in said(page)
    page = step(who, step(who, page, "add", "r", "c2"), "add", "r1", "c3")
    preview, done = saved(who, page)
    assert rows(preview, "data-field")["Tree"] == "Tree none 2(c1, 1(c2, c3))"
    assert done.status_code == 303 and console.rest.ok("GET", "/trees/main")["root"] == TREE


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_edits_nothing(acme: Console, kind: str) -> None:
    assert visitor(acme, kind).get(EDIT).status_code == 403
