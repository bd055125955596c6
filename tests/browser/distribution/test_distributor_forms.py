"""Forms of targets, pauses, limits and the primary, and the operations that follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from backend.deciders import TREE
from backend.domain.tree.primary_move import RecordPrimaryMoved
from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.nightly import some_now
from tests.support.api.observations import observe
from tests.support.console.consoles import Console
from tests.support.console.switching import all_online
from tests.support.console.visitors import Visitor, code, hidden, record, rows, said, values, visitor
from tests.support.database.postgres import Database

TARGET, SETTINGS, PRIMARY = "/tree/-target/c1/2", "/tree/-settings/c1/2", "/tree/-primary"


@pytest.fixture
def operator(acme: Console) -> Visitor:
    return visitor(acme, "operator")


def test_a_target_is_switched_with_the_ways_that_change_and_followed_until_it_is_done(
    acme: Console, operator: Visitor, database: Database
) -> None:
    all_online(database)
    form = operator.get(TARGET)
    assert '<option value="c2" selected>' in form.text and '<option value="c3">' in form.text
    preview = operator.client.post(TARGET, data={**hidden(form), "target": "c3", "step": "preview"})
    text = said(preview)
    assert "c1:2 will copy to c3 instead of c2." in text and "6 pairs of origin and cluster proven" in text
    ways = rows(preview, "data-field")
    assert ways["Route from c1"] == "Route from c1 c1 → c2 (L2), c2 → c3 (L1) c1 → c3 (L2), c3 → c2 (L1)"
    assert "Route from c2" not in ways
    assert '{"target": "c3"}' in code(preview, "same-curl")
    assert acme.rest.ok("GET", "/trees/main/distributors")[0]["target"] == "c2", "nothing was done yet"
    sent = {**hidden(preview), "step": "confirm"}
    done = operator.client.post(TARGET, data=sent)
    where = done.headers["location"]
    assert done.status_code == 303 and where.startswith("/operations/target-switch-")
    assert operator.client.post(TARGET, data=sent).headers["location"] == where, "sent twice"
    assert "in progress" in said(operator.get(where)) and "hx-get" in operator.get(where).text
    position = int(where.rpartition("-")[2])
    observe(database.engine, "c1", 2, "c3", position=position)
    page = operator.get(where)
    assert "done" in said(page) and "Target c3 Previous c2" in said(page) and "hx-get" not in page.text


def test_a_tree_that_changed_meanwhile_is_told(acme: Console, operator: Visitor) -> None:
    form = operator.get(TARGET)
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    late = operator.client.post(TARGET, data={**hidden(form), "target": "c2", "step": "preview"})
    assert late.status_code == 412 and "somebody changed it since" in said(late)
    again = operator.client.post(TARGET, data={**hidden(late), "target": "c2", "step": "preview"})
    assert again.status_code == 200 and "instead of c3" in said(again)


def test_one_is_paused_limited_and_goes_on(acme: Console, operator: Visitor) -> None:
    form = operator.get(SETTINGS)
    wish = {"paused": "yes", "bytes_per_second": "5 MiB", "compression": "zstd"}
    preview = operator.client.post(SETTINGS, data={**hidden(form), **wish, "step": "preview"})
    assert "c1:2 will be paused." in said(preview)
    assert "A pause longer than the retention on c1 loses records" in said(preview)
    assert code(preview, "same-command") == (
        "treeline distributor set c1 2 --bytes-per-second 5242880 --compression zstd\n"
        "treeline distributor pause c1 2"
    )
    assert (
        operator.client.post(SETTINGS, data={**hidden(preview), "step": "confirm"}).headers["location"] == "/tree"
    )
    found = acme.rest.ok("GET", "/trees/main/distributors/c1/2")
    assert (found["paused"], found["bytes_per_second"], found["compression"]) == (True, 5242880, "zstd")
    form = operator.get(SETTINGS)
    assert values(form)["bytes_per_second"] == "5 MiB"
    go_on = {"paused": "no", "bytes_per_second": "none", "compression": "zstd"}
    preview = operator.client.post(SETTINGS, data={**hidden(form), **go_on, "step": "preview"})
    assert "c1:2 will resume from its position." in said(preview)
    assert code(preview, "same-command") == (
        "treeline distributor set c1 2 --bytes-per-second none\ntreeline distributor resume c1 2"
    )
    operator.client.post(SETTINGS, data={**hidden(preview), "step": "confirm"})
    found = acme.rest.ok("GET", "/trees/main/distributors/c1/2")
    assert (found["paused"], found["bytes_per_second"]) == (False, None)
    same = operator.client.post(SETTINGS, data={**hidden(operator.get(SETTINGS)), **go_on, "step": "preview"})
    assert "these are the present settings" in said(same) and 'value="confirm"' not in same.text


@some_now(
    "path, given, field, told",
    [
        (TARGET, {"target": "c1"}, "target", "must be one of c2, c3"),
        (SETTINGS, {"bytes_per_second": "fast", "compression": "none"}, "bytes_per_second", "must be like 1 MiB"),
        (SETTINGS, {"bytes_per_second": "", "compression": "best"}, "compression", "compression"),
        (PRIMARY, {"cluster": "c9"}, "cluster", "must be one of c1, c2, c3"),
    ],
    now=(0, 1),
)
def test_what_cannot_be_meant_stands_at_its_field(
    operator: Visitor, path: str, given: dict[str, str], field: str, told: str
) -> None:
    answer = operator.client.post(path, data={**hidden(operator.get(path)), **given, "step": "preview"})
    assert answer.status_code == 422 and told in said(answer) and f'id="wrong-{field}"' in answer.text


def test_the_primary_is_moved_and_the_move_is_ended(acme: Console, operator: Visitor, database: Database) -> None:
    form = operator.get(PRIMARY)
    preview = operator.client.post(PRIMARY, data={**hidden(form), "cluster": "c2", "step": "preview"})
    assert "c2 will be the primary, once it has all schemas of c1" in said(preview)
    assert code(preview, "same-command") == "treeline schemas move-primary c2"
    done = operator.client.post(PRIMARY, data={**hidden(preview), "step": "confirm"})
    where = done.headers["location"]
    assert where.startswith("/operations/primary-move-") and "in progress" in said(operator.get(where))
    form = operator.get(PRIMARY)
    assert "A move to c2 is in progress. Choose c1 to cancel it." in said(form)
    preview = operator.client.post(PRIMARY, data={**hidden(form), "cluster": "c1", "step": "preview"})
    assert "c1 stays the primary" in said(preview)
    ended = operator.client.post(PRIMARY, data={**hidden(preview), "step": "confirm"})
    assert ended.headers["location"] == "/tree"
    assert "the primary is no longer being moved to c2" in said(operator.get(where))


def test_a_dead_primary_is_not_waited_for(acme: Console, operator: Visitor, database: Database) -> None:
    given = {**hidden(operator.get(PRIMARY)), "cluster": "c3", "take_over": "yes"}
    preview = operator.client.post(PRIMARY, data={**given, "step": "preview"})
    assert "c1 is not waited for: 1,000 ids" in said(preview)
    assert code(preview, "same-command") == "treeline schemas move-primary c3 --take-over"
    where = operator.client.post(PRIMARY, data={**hidden(preview), "step": "confirm"}).headers["location"]
    record(database, RecordPrimaryMoved(cluster="c3", previous="c1", skipped_ids=1000), TREE, "tree-main")
    assert "done" in said(operator.get(where)) and "Skipped ids 1000" in said(operator.get(where))


@some_now("path", ["/tree/-target/c1/9", "/tree/-settings/nobody/1", "/operations/target-switch-1"], now=(0,))
def test_what_there_is_not_is_not_found(operator: Visitor, path: str) -> None:
    assert operator.get(path).status_code == 404


@pytest.mark.parametrize("kind", ["viewer", "owner"])
def test_who_may_not_change_the_estate_has_no_forms(acme: Console, kind: str) -> None:
    who = visitor(acme, kind)
    assert {who.get(path).status_code for path in (TARGET, SETTINGS, PRIMARY)} == {403}


@pytest.mark.nightly  # the forms without a browser stay; arrows are links in test_tree_page
def test_by_a_click_on_an_arrow(acme: Console, open_page, database: Database) -> None:
    all_online(database)
    page = open_page(acme, "/tree")
    page.locator("[data-distributor='c1:2'] .label").click()
    page.get_by_role("link", name="Change target").click()
    expect(page).to_have_title("Target of c1:2 · Treeline")
    page.get_by_label("Target").select_option("c3")
    expect(page.locator("#verdict")).to_contain_text("c1:2 will copy to c3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Switch target").click()
    expect(page.locator("#state")).to_contain_text("in progress")
    position = int(page.url.rpartition("-")[2])
    observe(database.engine, "c1", 2, "c3", position=position)
    expect(page.locator("#state")).to_contain_text("done")
    page.get_by_role("link", name="Open tree", exact=True).click()
    page.locator("[data-row='c1:2'] [data-settings] a").click()
    expect(page).to_have_title("Settings of c1:2 · Treeline")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, open_page, folder: Path | None, database: Database) -> None:
    all_online(database)
    page = open_page(acme, TARGET)
    taken(page, "target", folder)
    page.get_by_label("Target").select_option("c3")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Switch target").wait_for()
    taken(page, "target-preview", folder)
    page.get_by_role("button", name="Switch target").click()
    page.locator("#state").wait_for()
    taken(page, "operation", folder)
    page.goto(f"{acme.url}{SETTINGS}")
    taken(page, "distributor", folder)
    page.goto(f"{acme.url}{PRIMARY}")
    taken(page, "primary", folder)
