"""The Tree page on a control plane whose clusters are all offline: its content, its viewers, and its updates."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect

from backend.projections.clusters import clusters
from backend.web.tree import tree_view
from tests.nightly import some_now
from tests.support.api.observations import observe
from tests.support.console.chromium import log_out
from tests.support.console.consoles import Console, serve
from tests.support.console.switching import all_online
from tests.support.database.postgres import Database, RunningPostgres

TREE = {
    "level": 2,
    "children": [{"cluster": "c1"}, {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}],
}
# No worker falls silent while a slow machine opens a page.
LATER = sa.text("now() + interval '1 hour'")
ARROWS = ["c1:2", "c2:1", "c2:2", "c3:1", "c3:2"]


def add_cluster(console: Console, name: str, **fields: str) -> None:
    body = {"name": name, "bootstrap_servers": "127.0.0.1:9", "accept_offline": True, **fields}
    console.rest.ok("POST", "/clusters", body)


def set_up(console: Console) -> None:
    for name in ("c1", "c2", "c3"):
        add_cluster(console, name, zone="az1")
    console.rest.ok("PUT", "/trees/main", TREE)


@pytest.mark.nightly  # test_every_page asks every page without a session
def test_without_a_session_the_page_only_says_how_to_log_in(console: Console, open_page) -> None:
    page = open_page(console, expect_errors=True)
    expect(page.get_by_role("heading", name="No clusters yet")).to_be_visible()
    log_out(page)
    for path in ("/", "/tree", "/tree?at=0"):
        answer = page.goto(f"{console.url}{path}")
        assert answer is not None
        assert answer.status == 401
        expect(page.get_by_text("make up")).to_be_visible()
        expect(page.locator("#timeline")).to_have_count(0)
    assert page.request.get(f"{console.url}/tree/live").status == 401


def test_empty_states_say_what_to_do_next_and_give_way_without_a_reload(console: Console, open_page) -> None:
    page = open_page(console)
    expect(page.get_by_role("heading", name="No clusters yet")).to_be_visible()
    expect(page.locator("#diagram")).to_contain_text("/api/v1/clusters")
    add_cluster(console, "c1")
    expect(page.get_by_role("heading", name="One cluster, no tree yet")).to_be_visible()
    add_cluster(console, "c2")
    add_cluster(console, "c3")
    expect(page.locator("#diagram")).to_contain_text("/api/v1/trees/main")
    console.rest.ok("PUT", "/trees/main", TREE)
    expect(page.locator("svg [data-distributor]")).to_have_count(5)


def test_a_cluster_that_is_away_says_so_and_why_in_plain_sight(console: Console, open_page) -> None:
    set_up(console)
    page = open_page(console)
    card = page.locator("[data-cluster='c2']")
    expect(card).to_have_attribute("data-state", "offline")
    expect(card.locator(".state")).to_have_text("offline")
    expect(card.locator(".reason").first).to_contain_text("Connection refused")
    expect(page.locator("#notices")).to_contain_text(re.compile("c2: 127.0.0.1:9.*Connection refused"))
    expect(page.locator("[data-row='c3:1'] .reason")).to_contain_text("c2 is offline")
    expect(page.locator("[data-distributor='c3:1']")).to_have_attribute("data-state", "blocked")
    expect(page.locator("[data-cluster='c1'] .primary")).to_be_visible()


def test_arrows_and_table_say_the_same_and_follow_what_workers_see(
    console: Console, database: Database, open_page
) -> None:
    set_up(console)
    page = open_page(console)
    arrows = page.locator("svg [data-distributor]")
    assert arrows.evaluate_all("all => all.map(each => each.dataset.distributor)") == ARROWS
    rows = page.locator("[data-row]")
    assert rows.evaluate_all("all => all.map(each => each.dataset.row)") == ARROWS
    observe(database.engine, "c1", 2, "c2", lag_records=600, wait_seconds=4.0, records_per_second=1234.5)
    arrow = page.locator("[data-distributor='c1:2']")
    expect(arrow.locator(".rate")).to_have_text("2.5k/s")
    expect(arrow.locator(".lag")).to_have_text("lag 1.2k")
    expect(arrow).to_have_attribute("aria-label", re.compile("c1 level 2 to c2: blocked, 2.5k records per second"))
    cells = page.locator("[data-row='c1:2'] > *").all_inner_texts()
    assert cells[:8] == ["c1", "L2", "0011", "0010", "c2", "none", "blocked", "1,200"]
    assert cells[8:12] == ["in time", "2.5k", "1", "w:1"]
    assert "offline" in cells[12]


@some_now(
    "facts, verdict, spoken, summary",
    [
        ({"lag_records": 0}, "in time", "lag 0, in time", "1 of 5"),
        ({"lag_records": 9, "wait_seconds": 60.0}, "in time", "lag 18, in time", "1 of 5"),
        ({"lag_records": 9, "wait_seconds": 60.1}, "late", "lag 18, late", "0 of 5"),
        ({"lag_records": 9, "wait_seconds": None}, "unknown", "lag 18, wait unknown", "– of 5"),
        ({"lag_records": None, "wait_seconds": 60.1}, "unknown", "lag –, wait unknown", "– of 5"),
    ],
    now=(2, 3),
)
def test_arrow_table_and_summary_say_whether_records_wait_for_longer_than_they_may(
    console: Console, database: Database, open_page, facts: dict[str, Any], verdict: str, spoken: str, summary: str
) -> None:
    set_up(console)
    observe(database.engine, "c1", 2, "c2", seen_at=LATER, **facts)
    page = open_page(console)
    arrow = page.locator("[data-distributor='c1:2']")
    expect(arrow.locator(".late")).to_have_text(["late"] if verdict == "late" else [])
    said = arrow.get_attribute("aria-label") or ""
    assert f", 0 records per second, {spoken}. " in said
    # For voice control, the label begins with what is seen, in order.
    seen = " ".join(map(str.strip, arrow.locator(".label text").all_text_contents()))
    assert said.endswith(f" {seen}")
    assert seen.startswith("L2 blocked late 0/s" if verdict == "late" else "L2 blocked 0/s")
    expect(page.locator("#distributor-table thead th").nth(8)).to_have_text("Within 60 s")
    cell = page.locator("[data-row='c1:2'] > *").nth(8)
    expect(cell).to_have_text(verdict)
    expect(page.locator("[data-row='c2:1'] > *").nth(8)).to_have_text("unknown")
    figure = page.locator("#summary-list > div", has=page.locator("#in-time"))
    expect(figure).to_have_text(re.compile(rf"Within 60 s\s*{summary}"))
    expect(figure).to_have_class(re.compile("bad" if verdict == "late" else "^$"))
    page.goto(f"{console.url}/tree/-target/c1/2")
    wait = facts.get("wait_seconds") if facts["lag_records"] else 0.0 if facts["lag_records"] == 0 else None
    expect(page.locator("#now")).to_contain_text(verdict if wait is None else f"{wait:g} s, {verdict}")
    page.goto(f"{console.url}/tree?at=7")
    expect(page.locator("svg [data-distributor]")).to_have_count(5)
    expect(page.locator("body")).not_to_contain_text(re.compile("in time|Within 60 s"))
    assert page.locator(".late").count() == 0


@pytest.mark.nightly  # the verdict late is in the arrow's test, notices are in the test of a cluster that is away
def test_late_distributors_need_attention_until_they_are_in_time(
    acme: Console, database: Database, open_page
) -> None:
    all_online(database)
    page = open_page(acme)
    notice = page.locator("#notice-list > li", has_text="late")
    for wait, said in ((61.0, ["2 distributors late: c1:2, c3:2Records wait longer than 60 s."]), (60.0, [])):
        for cluster, target, state in (("c1", "c2", "running"), ("c3", "c1", "running"), ("c2", "c1", "blocked")):
            facts = {"seen_at": LATER, "lag_records": 9, "wait_seconds": wait, "reason": "of its own"}
            observe(database.engine, cluster, 2, target, state, **facts)
        expect(notice).to_have_text(said)


def test_seconds_that_pass_while_something_waits_are_no_reason_to_draw_again(
    console: Console, database: Database
) -> None:
    set_up(console)
    found = []
    for seconds in (5.0, 59.0, 61.0):
        observe(database.engine, "c1", 2, "c2", seen_at=LATER, lag_records=9, wait_seconds=seconds)
        with database.engine.connect() as connection:
            found.append(tree_view.read(connection))
    assert found[0] == found[1] != found[2]


@pytest.mark.nightly  # the timeline follows in test_focus_lights_a_path and after the outage
def test_an_event_appears_in_the_timeline_without_a_reload(console: Console, open_page) -> None:
    page = open_page(console)
    page.evaluate("window.sameDocument = true")
    console.rest.ok("POST", "/tenants", {"name": "acme"})
    newest = page.locator("#timeline .event").first
    expect(newest.locator(".sentence")).to_have_text("Tenant acme created")
    expect(newest.locator(".position")).to_have_text("1")
    for fact in ("admin", "tenant-acme", "TenantCreated"):
        expect(newest).to_contain_text(fact)
    console.rest.ok("POST", "/tenants", {"name": "beta"})
    expect(page.locator("#timeline .sentence")).to_have_text(["Tenant beta created", "Tenant acme created"])
    assert page.evaluate("window.sameDocument")
    expect(page.locator("#live")).to_have_text("live")


@pytest.mark.nightly  # pages of earlier positions: test_travel, test_travel_observed
def test_an_earlier_position_shows_configuration_only_and_says_so(console: Console, open_page) -> None:
    set_up(console)
    page = open_page(console)
    assert page.locator("#timeline .position").first.inner_text() == "7"
    page.locator("#event-5 .position").click()
    expect(page.locator("#past")).to_contain_text("You are looking at position 5 of 7")
    expect(page.get_by_role("heading", name="No tree yet")).to_be_visible()
    expect(page.locator("#event-6")).to_have_count(0)
    page.get_by_role("link", name="Next event").click()
    page.get_by_role("link", name="Next event").click()
    expect(page.locator("#past")).to_contain_text("position 7")
    assert page.locator("[data-state]").evaluate_all(
        "all => [...new Set(all.filter(each => each.dataset.distributor).map(each => each.dataset.state))]"
    ) == ["unobserved"]
    expect(page.locator("#live")).to_have_count(0)
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator("#past")).to_have_count(0)
    expect(page.locator("#live")).to_have_text("live")


@pytest.mark.nightly  # settings are in test_rest_distributors and test_distributor_forms
def test_what_an_operator_has_set_is_shown_now_and_as_it_was(console: Console, open_page) -> None:
    set_up(console)
    before = console.rest.ok("GET", "/events/head")["position"]
    page = open_page(console)
    settings = page.locator('[data-row="c2:1"] [data-settings]')
    expect(settings).to_have_text("none")
    body = {"paused": True, "bytes_per_second": 5_000_000, "compression": "zstd"}
    console.rest.ok("PATCH", "/trees/main/distributors/c2/1", body)
    expect(settings).to_have_text("paused, at most 5.0MB/s, zstd")
    expect(page.locator("#timeline")).to_contain_text("c2 level 1 paused")
    expect(page.locator("#timeline")).to_contain_text("at most 5,000,000 bytes per second")
    expect(page.locator('[data-row="c2:2"] [data-settings]')).to_have_text("none")
    page.goto(f"{console.url}/tree?at={before}")
    expect(settings).to_have_text("–")


@pytest.mark.parametrize(
    ("at", "text"),
    [("1", "lies in the future"), ("99999999999999999999", "lies in the future"), ("x", "whole number")],
)
def test_a_position_that_is_none_is_refused_with_a_way_back(console: Console, at: str, text: str) -> None:
    answer = console.get(f"/tree?at={at}")
    assert answer.status_code == 422
    assert text in answer.text
    assert 'href="/tree"' in answer.text


@pytest.mark.nightly
def test_without_javascript_the_page_is_whole_and_reloads_itself(console: Console, open_page) -> None:
    set_up(console)
    page = open_page(console, java_script_enabled=False)
    expect(page.locator("svg [data-distributor]")).to_have_count(5)
    expect(page.locator("[data-row]")).to_have_count(5)
    expect(page.locator("#timeline .event")).to_have_count(7)
    assert '<noscript><meta http-equiv="refresh"' in page.content()
    add_cluster(console, "c4")
    # Reloaded by the page, not by the test.
    expect(page.locator("#timeline .event")).to_have_count(9, timeout=20_000)


def test_dark_and_light_follow_the_system_or_the_button(console: Console, open_page) -> None:
    page = open_page(console, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    assert (brightness(dark) < 60, brightness(light) > 200) == (True, True)
    themes = page.get_by_role("group", name="Theme")
    for shown, theme in ((light, "Light"), (dark, "Dark"), (light, "Auto")):
        page.locator(".who > summary").click()
        themes.get_by_role("button", name=theme).click()
        expect(themes.locator("[aria-pressed=true]")).to_have_text(theme)
        page.reload()
        assert page.evaluate(ground) == shown


def brightness(colour: str) -> float:
    return max(map(float, re.findall(r"[\d.]+", colour)[:3]))


def test_focus_lights_a_path_and_outlives_an_update(console: Console, open_page) -> None:
    set_up(console)
    page = open_page(console)
    lit = "all => all.filter(each => each.matches('.lit')).map(each => each.id).sort()"
    parts = page.locator("#tree-svg [id], [data-row]")
    labels = page.locator("#tree-svg [tabindex='0'], #tree-svg a").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert [bool(label) for label in labels] == [True] * (3 + 5 + 1), "with the inner node that can be collapsed"
    page.locator("[data-distributor='c3:2']").focus()
    path = ["arrow-c3-2", "branch-r-c1", "branch-r-c2", "branch-r1-c3", "leaf-c1", "leaf-c3", "node-r", "row-c3-2"]
    assert parts.evaluate_all(lit) == path
    console.rest.ok("POST", "/tenants", {"name": "acme"})
    add_cluster(console, "c4")
    expect(page.locator("#timeline")).to_contain_text("c4 added")
    assert page.evaluate("document.activeElement.dataset.distributor") == "c3:2"
    assert parts.evaluate_all(lit) == path
    page.keyboard.press("Escape")
    assert parts.evaluate_all(lit) == []
    page.locator("[data-cluster='c2'] .name").hover()
    found = parts.evaluate_all(lit)
    assert {"arrow-c2-1", "arrow-c2-2", "arrow-c1-2", "arrow-c3-1", "leaf-c2"} <= set(found)
    assert "arrow-c3-2" not in found
    page.locator("#leaf-c2").press("Enter")
    page.get_by_role("link", name="Cluster page").press("Enter")
    expect(page).to_have_title(re.compile("^c2 "))


def test_a_lost_database_is_told_and_the_last_state_kept(
    own_postgres: RunningPostgres, tmp_path: Path, open_page
) -> None:
    with serve(own_postgres.url, tmp_path / "log") as (console, _):
        set_up(console)
        page = open_page(console)
        expect(page.locator("#live")).to_have_text("live")
        own_postgres.kill()
        told = re.compile(r"has not reached its database since \d\d:\d\d:\d\d\. The data")
        expect(page.locator("#outage")).to_contain_text(told, timeout=20_000)
        expect(page.locator("svg [data-distributor]")).to_have_count(5)
        expect(page.locator("#live")).to_have_text("live")
        own_postgres.start()
        expect(page.locator("#outage")).to_be_empty(timeout=20_000)
        console.rest.ok("POST", "/tenants", {"name": "acme"})
        expect(page.locator("#timeline")).to_contain_text("Tenant acme created")
        page.close()


@pytest.mark.nightly
def test_the_control_plane_ends_while_pages_are_open_and_they_go_on_when_it_is_back(
    database: Database, tmp_path: Path, open_page
) -> None:
    with serve(database.url, tmp_path / "log") as (console, process):
        page = open_page(console, expect_errors=True)
        expect(page.locator("#live")).to_have_text("live")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    expect(page.locator("#live")).to_contain_text("not live since")
    expect(page.get_by_role("heading", name="No clusters yet")).to_be_visible()
    with serve(database.url, tmp_path / "log", int(console.url.rpartition(":")[2])) as (console, _):
        console.rest.ok("POST", "/tenants", {"name": "acme"})
        expect(page.locator("#timeline")).to_contain_text("Tenant acme created", timeout=30_000)
        expect(page.locator("#live")).to_have_text("live")
        page.close()


@some_now("width, height", [(800, 900), (1280, 800), (1440, 900), (1920, 1080)], now=(1,))
def test_everything_has_its_room(console: Console, database: Database, open_page, width: int, height: int) -> None:
    set_up(console)
    facts = {"lag_records": 49_900, "wait_seconds": 61.0, "records_per_second": 49_900.0, "seen_at": LATER}
    observe(database.engine, "c1", 2, "c2", **facts)
    page: Page = open_page(console)
    page.set_viewport_size({"width": width, "height": height})
    expect(page.locator("[data-distributor='c1:2'] .rate")).to_have_text("99.8k/s")
    page.evaluate("document.fonts.ready")
    assert page.evaluate("document.fonts.check('12px Inter')")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    too_wide = page.locator(".label").evaluate_all(
        """labels => labels.filter(label => {
             const room = label.querySelector('.room').getBBox();
             const of = part => label.querySelector(part)?.getBBox();
             const [rate, lag, state, late] = ['.rate', '.lag', 'text.state', '.late'].map(of);
             return [...label.querySelectorAll('text')].some(text => {
               const box = text.getBBox();
               return box.x < room.x - 1 || box.x + box.width > room.x + room.width;
             }) || rate.x + rate.width > lag.x || late && state.x + state.width + 4 > late.x;
           }).map(label => label.textContent)"""
    )
    assert too_wide == []
    # Degraded is the longest of the states; as these clusters are offline, none is.
    room = page.locator("[data-distributor='c1:2'] .label").evaluate(
        """label => {
             const state = label.querySelector('text.state');
             state.textContent = 'degraded';
             return label.querySelector('.late').getBBox().x - state.getBBox().x - state.getBBox().width;
           }"""
    )
    assert room > 4
    outside = page.locator(".leaf").evaluate_all(
        """leaves => leaves.filter(leaf => {
             const card = leaf.querySelector('rect').getBBox();
             return [...leaf.querySelectorAll('text')].some(text => {
               const box = text.getBBox();
               return box.x + box.width > card.width || box.y + box.height > card.height;
             });
           }).map(leaf => leaf.textContent)"""
    )
    assert outside == []


def test_pages_carry_no_inline_code_and_escape_what_others_wrote(console: Console, database: Database) -> None:
    add_cluster(console, "c1")
    add_cluster(console, "c2")
    console.rest.ok("PUT", "/trees/main", {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]})
    with database.owner.begin() as connection:
        connection.execute(sa.update(clusters).values(reason="<i>no\"1'"))
    answer = console.get("/tree")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"\sstyle=|\son\w+=|<style|javascript:|<script(?! src=\"/static/)", answer.text)
    assert "<i>" not in answer.text
    assert answer.text.count("&lt;i&gt;no&#34;1&#39;") >= 4, "cards, their labels, notices, table"


def test_static_files_are_those_listed_and_kept_for_good_by_browsers(console: Console) -> None:
    addresses = set(re.findall(r'"(/static/[^"]+)"', console.get("/tree").text))
    assert len(addresses) >= 8
    for address in addresses:
        answer = console.get(address)
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True), address
    assert console.get("/static/vendor/inter.woff2").status_code == 200
    for path in ("/static/", "/static/../templates/tree.html", "/static/%2e%2e/package.json", "/static/vendor/x"):
        assert console.get(path).status_code == 404
