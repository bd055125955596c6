"""Ten tasks of an operator in real Chromium, by mouse, on real clusters: each takes few clicks.

Every task begins on the first page and ends when it is really done: records, offsets and trees are read from the
clusters and the control plane.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests import report_facts
from tests.browser.schemas.test_schemas_on_estate import COMPATIBLE, FIRST
from tests.browser.switch.test_switch_on_estate import known_to_discovery
from tests.browser.switch.test_switch_on_estate import tenant as tenant
from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.console.mouse import PATIENT, Mouse
from tests.support.estate.applications import Applications, Tenant
from tests.support.estate.groups import Groups, numbered, of_stream, on_a_stream
from tests.support.estate.running import DEFAULT_ESTATE, RunningEstate, boot, treeline

pytestmark = pytest.mark.nightly  # each way's pages are tested in their own rooms

CLUSTERS = [f"cluster-{number}" for number in range(1, 6)]
OLD, NEW = "cluster-1", "cluster-5"
LEAF, BESIDE = "cluster-3", "cluster-2"
EDGE = "cluster-1:3"
PROD = "/tenants/acme/instances/retail/environments/prod"


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    """Yield an estate of these tests alone: others' groups and streams would fill the lists, and a leaf leaves."""
    home = tmp_path_factory.mktemp("tasks") / "home"
    booted = boot(home, DEFAULT_ESTATE)
    try:
        assert booted.booted.returncode == 0, booted.booted.stdout + booted.booted.stderr
        yield booted
    finally:
        treeline(home, "down", "--wipe")


@pytest.fixture
def rest(estate: RunningEstate) -> RestClient:
    return RestClient(estate.url, estate.token)


@pytest.fixture
def servers(estate: RunningEstate) -> dict[str, str]:
    return {name: estate.bootstrap_servers(name) for name in CLUSTERS}


@pytest.fixture
def mouse(estate: RunningEstate, open_page: Callable[..., Page]) -> Mouse:
    console = Console(estate.url, estate.token)
    return Mouse(open_page(console, "/"), console)


@pytest.fixture
def lagging(rest: RestClient, servers: dict[str, str]) -> Iterator[Groups]:
    """Yield a group without members, which the control plane has observed with 15 records before it."""
    found = on_a_stream(rest, servers, "margin")
    found.produce(OLD, numbered(20))
    found.wait_for(20)
    found.commit(OLD, 5)

    def observed() -> bool:
        rows = rest.ok("GET", f"/groups?cluster={OLD}&group={found.group}")["items"]
        return [row["lag_records"] for row in rows] == [15]

    eventually(observed, "the group is observed", 1)
    yield found
    found.delete()


def done(mouse: Mouse, number: int, task: str, aim: int) -> None:
    """Report the clicks of a task, and check that they are not more than the aim."""
    way = ", ".join(mouse.way) or "the first page says it"
    report_facts.leave(f"clicks-{number:02}", {"task": task, "way": way, "clicks": mouse.clicks, "aim": aim})
    print(f"{task}: {mouse.clicks} of {aim} clicks: {way}")  # noqa: T201 - read with `pytest -s`
    assert mouse.clicks <= aim, way


def test_the_health_of_the_estate_is_on_the_first_page(mouse: Mouse, rest: RestClient) -> None:
    verdict = mouse.page.locator("#verdict-text")

    def same() -> bool:
        return rest.ok("GET", "/overview")["verdict"] in verdict.inner_text()

    eventually(same, "the page has the verdict of the control plane", 0.5)
    expect(mouse.page.locator("#cluster-cards > li[data-state='online']")).to_have_count(len(CLUSTERS))
    done(mouse, 1, "Judge the estate's health", 0)


def open_group(mouse: Mouse, lagging: Groups) -> None:
    mouse.open("Groups")
    row = mouse.page.locator(f"[data-group='{OLD}/{lagging.name(OLD)}']")
    mouse.click(row.get_by_role("link", name=lagging.group, exact=True), "the group")


def test_a_group_says_why_it_lags(mouse: Mouse, lagging: Groups) -> None:
    open_group(mouse, lagging)
    expect(mouse.page.locator("#diagnosis")).to_contain_text(
        re.compile("No members.*nobody reads, and 15 records")
    )
    done(mouse, 2, "See why a group lags", 2)


def test_the_offsets_of_a_group_are_reset(mouse: Mouse, lagging: Groups) -> None:
    assert lagging.stands(OLD)[0] == 5
    open_group(mouse, lagging)
    mouse.link("Reset offsets")
    mouse.button("Preview")
    mouse.type(f"Type {lagging.group} to confirm", lagging.group, "its name", enter=True)
    mouse.page.wait_for_url("**/offsets")
    assert lagging.stands(OLD)[0] == 0
    done(mouse, 3, "Reset it to the earliest offsets", 4)


def test_a_message_is_found_by_its_key_and_followed_to_all_clusters(
    mouse: Mouse, rest: RestClient, servers: dict[str, str]
) -> None:
    stream, key = "acme/retail/prod/orders", f"order-{secrets.token_hex(4)}"
    found = of_stream(rest, servers, ("acme", "retail", "prod", "orders"))
    found.produce(OLD, numbered(50))
    found.produce(OLD, ["the one"], key=key.encode())
    found.wait_for(51)

    page = mouse.page
    mouse.click(page.locator("#find"), "**Find**")
    page.keyboard.type("read messages retail orders")
    mouse.way.append("*type words of the stream*")
    mouse.click(page.locator("#finder-hits").get_by_role("link", name=f"Read messages of {stream}"), "the hit")
    mouse.type("Key contains", key, "the key", enter=True)
    expect(page.locator("#messages details")).to_have_count(1)
    mouse.click(page.locator("#messages summary"), "the message")
    mouse.link("Trace on all clusters")
    expect(page.get_by_role("heading", name="On every cluster of the tree")).to_be_visible()
    copies = page.locator("#copies [data-copy]").evaluate_all("all => all.map(each => each.dataset.copy)")
    assert sorted([OLD, *copies]) == CLUSTERS
    expect(page.locator("#origin")).to_contain_text(OLD)
    done(mouse, 4, "Find a message by its key, and follow it to all clusters", 5)


def test_two_versions_of_a_schema_are_compared(mouse: Mouse, estate: RunningEstate) -> None:
    subject = "acme-retail-prod-payments-value"
    headers = {"Authorization": f"Bearer {estate.token}"}
    versions = f"{estate.url}/registries/{OLD}/subjects/{subject}/versions"
    for schema in (FIRST, COMPATIBLE, COMPATIBLE.replace("note", "remark")):
        assert http.post(versions, json={"schema": schema}, headers=headers, timeout=60).status_code == 200

    mouse.open("Schemas")
    mouse.link(subject)
    expect(mouse.page.locator("#diff-title")).to_have_text("Version 3 against version 2")
    mouse.link("Compare version 3 with version 1")
    expect(mouse.page.locator("#diff-title")).to_have_text("Version 3 against version 1")
    expect(mouse.page.locator("#diff")).to_contain_text("remark")
    done(mouse, 5, "Compare any two versions of a schema", 3)


def test_a_switch_is_planned_started_and_reversed(mouse: Mouse, tenant: Tenant) -> None:
    names = ["g0", "g1", "producer-0", "producer-1"]
    with Applications(tenant) as applications:
        known_to_discovery(tenant, OLD, NEW, names)
        mouse.open("Switches")
        mouse.link("Plan switch")
        mouse.choose("From", OLD)
        mouse.choose("To", NEW)
        mouse.type("Scope", tenant.name, "the tenant")
        mouse.button("Create plan")
        mouse.type(f"Type {OLD} to start", OLD, "the cluster's name")
        mouse.button("Start switch")
        until_completed(mouse.page, tenant, NEW, 2)
        applications.all_read()
        done(mouse, 6, "Plan and start a switch", 8)

        known_to_discovery(tenant, NEW, OLD, names)
        mouse.count_from_here()
        mouse.link("Plan reverse switch")
        mouse.type(f"Type {NEW} to start", NEW, "the cluster's name", enter=True)
        until_completed(mouse.page, tenant, OLD, 3)
        applications.all_read()
        done(mouse, 7, "Reverse it, from its page", 2)
        applications.finish(OLD, NEW)


def until_completed(page: Page, tenant: Tenant, cluster: str, generation: int) -> None:
    """Wait until the page shows that the switch has completed, and check where discovery sends clients."""
    expect(page).to_have_url(re.compile(r"/switches/[0-9a-f]{12}$"), timeout=PATIENT)
    expect(page.locator("#report")).to_be_visible(timeout=PATIENT)
    expect(page.locator("#state")).to_have_text("Completed")
    assert tenant.active() == (cluster, generation)


def test_a_stream_is_added(mouse: Mouse, rest: RestClient) -> None:
    name = f"s{secrets.token_hex(4)}"
    mouse.open("Tenants")
    mouse.link("Declare stream")
    mouse.link("acme/retail/prod")
    mouse.type("Name", name, "its name")
    mouse.button("Preview")
    mouse.button("Declare stream")
    expect(mouse.page).to_have_url(re.compile(f"/tenants/acme/retail/prod/{name}$"))
    wanted = dict.fromkeys(CLUSTERS, "applied")
    eventually(lambda: rest.ok("GET", f"{PROD}/streams/{name}")["applied"] == wanted, "every cluster has it", 0.5)
    done(mouse, 8, "Add a stream", 5)


def test_a_leaf_leaves_the_tree_and_joins_it_again(mouse: Mouse, rest: RestClient) -> None:
    before = rest.ok("GET", "/trees/main")["root"]
    page = mouse.page
    mouse.open("Tree")
    mouse.click(page.locator(f"#leaf-{LEAF}"), "the leaf")
    mouse.link("Remove from tree")
    save_tree(mouse)
    assert rest.ok("GET", "/trees/main")["root"] != before
    expect(page.locator(f"#leaf-{BESIDE}")).to_be_visible()
    expect(page.locator(f"#leaf-{LEAF}")).to_have_count(0)
    until_running(rest, without=LEAF)
    done(mouse, 9, "Remove a leaf", 5)

    mouse.start()
    mouse.open("Tree")
    mouse.click(page.locator(f"#leaf-{BESIDE}"), "the leaf beside which it is to be")
    mouse.link(f"Add {LEAF} beside it")
    save_tree(mouse)
    assert rest.ok("GET", "/trees/main")["root"] == before
    expect(page.locator(f"#leaf-{LEAF}")).to_be_visible()
    until_running(rest)
    done(mouse, 10, "Add it again", 5)


def save_tree(mouse: Mouse) -> None:
    mouse.button("Preview")
    mouse.button("Save tree")
    mouse.page.wait_for_url("**/tree")


def until_running(rest: RestClient, without: str | None = None) -> None:
    """Wait until the distributors of all leaves run, and none of them copies from or to the cluster that left."""

    def all_run() -> bool:
        rows = rest.ok("GET", "/trees/main/distributors")
        ends = {row[end] for row in rows for end in ("cluster", "target")}
        return ends == {*CLUSTERS} - {without} and all(row["state"] == "running" for row in rows)

    eventually(all_run, "all distributors run", 0.5)


def test_the_lag_of_one_edge_is_shown_since_yesterday(mouse: Mouse, rest: RestClient) -> None:
    def sampled() -> bool:
        points = rest.ok("GET", f"/history?metric=edge.lag_records&subject={EDGE}")["points"]
        return any(value is not None for _, value in points)

    eventually(sampled, "the lag was sampled", 1)
    mouse.start()
    mouse.open("Tree")
    row = mouse.page.locator(f"#distributor-table [data-row='{EDGE}']")
    mouse.click(row.get_by_role("link", name=f"Lag of {EDGE}"), "the line beside its lag")
    chart = mouse.page.locator("figure[data-chart]")
    expect(chart.get_by_role("heading")).to_contain_text(f"Lag of {EDGE} last 24 hours")
    expect(chart.locator(".chart-figures")).to_be_visible()
    first = chart.locator(".chart-points time").first.get_attribute("datetime")
    age = datetime.now(UTC) - datetime.fromisoformat(first or "")
    assert timedelta(hours=23) < age < timedelta(hours=25), "it begins a day ago"
    done(mouse, 11, "See the lag of one edge since yesterday", 2)


def test_what_has_changed_since_this_morning(mouse: Mouse, rest: RestClient) -> None:
    name = f"t{secrets.token_hex(4)}"
    rest.ok("POST", "/tenants", {"name": name})
    page = mouse.page
    mouse.link("Last 24 hours")
    expect(page.locator("#events")).to_contain_text(f"Tenant {name} created")
    (since,) = parse_qs(urlsplit(page.url).query)["since"]
    age = datetime.now(UTC) - datetime.fromisoformat(since).replace(tzinfo=UTC)
    assert timedelta(hours=23) < age < timedelta(hours=25), "they begin a day ago"
    done(mouse, 12, "See what has changed since this morning", 2)
