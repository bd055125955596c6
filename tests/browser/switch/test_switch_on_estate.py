"""A switch and its reverse by mouse and keyboard in real Chromium, on real clusters with running applications."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from backend.domain.switch.cluster_switch import Phase
from backend.web.switch.switch_words import LABELS
from tests.eventually import GIVE_UP_SECONDS, eventually
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor
from tests.support.estate.applications import STREAM, Applications, ByHand, Tenant
from tests.support.estate.running import RunningEstate

OLD, NEW = "cluster-1", "cluster-5"
PATIENT = 1000 * GIVE_UP_SECONDS
# Records every state that the page shows, as long as the document stays the same.
RECORD = """() => {
  const look = () => {
    const shown = document.querySelector("#state").textContent.trim();
    if (window.seen.at(-1) !== shown) window.seen.push(shown);
  };
  window.seen = [];
  look();
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture
def tenant(estate: RunningEstate) -> Iterator[Tenant]:
    servers = {name: row["bootstrap_servers"] for name, row in estate.status()["clusters"].items()}
    ask = RestClient(estate.url, estate.token).ok
    name = f"t{secrets.token_hex(3)}"
    found = Tenant(name=name, ask=ask, url=estate.url, token=estate.token, servers=servers).make("exact")
    try:
        eventually(found.is_there, "its stream is on all clusters", 0.2)
        yield found
    finally:
        found.delete()


@pytest.fixture
def admin(estate: RunningEstate) -> Console:
    return Console(estate.url, estate.token)


@pytest.fixture
def onlooker(admin: Console, tenant: Tenant) -> Iterator[Console]:
    """Return the console of a user who may read the estate, and change nothing."""
    user = f"onlooker-{tenant.name}"
    yield Console(admin.url, Visitor(admin, user, "viewer").token)
    admin.rest.ok("PATCH", f"/users/{user}", {"disabled": True})


# Its parts: the browser in test_switch_in_browser, the switch in test_on_estate, the way back in
# test_switch_plan_page.
@pytest.mark.nightly
def test_there_and_back_while_applications_go_on(
    admin: Console, onlooker: Console, tenant: Tenant, open_page: Callable[..., Page]
) -> None:
    page, other = open_page(admin, "/tree"), open_page(onlooker, "/switches")
    for each in (page, other):
        each.set_default_timeout(PATIENT)
    expect(other.locator("span", has_text="Plan switch")).to_be_visible()
    expect(other.get_by_role("link", name="Plan switch")).to_have_count(0)
    with Applications(tenant) as applications:
        names = ["g0", "g1", "producer-0", "producer-1"]
        with ByHand(tenant, "slow") as slow:
            known = known_to_discovery(tenant, OLD, NEW, [*names, slow.name])
            ask_for_a_plan(page, tenant)
            check_plan(page, tenant, OLD, NEW, generation=2, clients=known)
            there = start(page, OLD)
            watch_it_hold(page, slow)
            look_on(other, there, slow)
            slow.tell(phase="held")
            expect(page.locator("#waits-for")).to_have_text(f"1 client not seen on {NEW} yet.", timeout=PATIENT)
            slow.tell(phase="active", generation=2)
            check_end(page, OLD, NEW, clients=5)
            assert "Holding" in page.evaluate("window.seen")
        check_active(page, tenant, NEW, 2, there)
        applications.all_read()
        expect(other.locator("#report")).to_be_visible(timeout=PATIENT)
        assert other.evaluate("window.seen").pop() == LABELS[Phase.COMPLETED]
        offers_nothing(other)

        tenant.ask("DELETE", goodbye(tenant, slow), None)
        known = known_to_discovery(tenant, NEW, OLD, names)
        page.locator(f"[data-switch='{there}']").get_by_role("link").click()
        page.get_by_role("link", name="Reverse").click()
        expect(page.get_by_role("heading", name="Plan reverse switch")).to_be_visible(timeout=PATIENT)
        expect(page.get_by_role("link", name=f"switch {there}")).to_be_visible()
        check_plan(page, tenant, NEW, OLD, generation=3, clients=known)
        back = start(page, NEW)
        check_end(page, NEW, OLD, clients=4)
        expect(page.get_by_role("link", name=there)).to_be_visible()
        check_active(page, tenant, OLD, 3, back)
        applications.all_read()
        applications.finish(OLD, NEW)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}, 3: {OLD}}


def known_to_discovery(tenant: Tenant, source: str, target: str, names: Sequence[str]) -> list[str]:
    """Return the clients' ids, once discovery knows them, both groups are active, and there are no blockers."""

    def look() -> list[str] | None:
        plan = tenant.ask("POST", "/switches/plan", tenant.wish(source, target))
        groups = [{each["group"]: each["members_on_source"] for each in item["groups"]} for item in plan["items"]]
        known = sorted(each["client_id"] for each in plan["clients"])
        # Each client of treeline_client appends eight random digits to its name.
        are_all = [re.sub("-[0-9a-f]{8}$", "", each) for each in known] == sorted(names)
        return known if are_all and groups == [{"g0": 1, "g1": 1}] * 2 and not plan["blockers"] else None

    return eventually(look, f"all applications are seen on {source}", 0.5)


def goodbye(tenant: Tenant, client: ByHand) -> str:
    query = "&".join(f"{name}={value}" for name, value in tenant.place.items())
    return f"/discovery/clients/{client.name}?{query}"


# --- the plan


def ask_for_a_plan(page: Page, tenant: Tenant) -> None:
    """Create a plan, starting from the Tree page."""
    page.get_by_role("link", name="Switches").click()
    page.get_by_role("link", name="Plan switch").click()
    page.get_by_label("From").select_option(OLD)
    page.get_by_label("To", exact=True).select_option(NEW)
    page.get_by_label("Scope").click()
    page.keyboard.type(tenant.name)
    page.keyboard.press("Enter")


def check_plan(
    page: Page, tenant: Tenant, source: str, target: str, *, generation: int, clients: Sequence[str]
) -> None:
    """Check the plan's content, and that its phases add up to the hold time."""
    place = "/".join(tenant.place.values())
    expect(page.locator("#sum")).to_have_text("Ready to start", timeout=PATIENT)
    expect(page.locator("#plan-title")).to_contain_text(place)
    gates = page.locator("#readiness")
    gates.locator("#passed:not([open]) summary").click()
    expect(gates.locator("[data-tone='bad']")).to_have_count(0)
    for said in (
        f"On {source}: {place}.",
        f"{target} is online.",
        "1 stream with all partitions.",
        f"Offsets can be set on {target}.",
        f"{len(clients)} clients, none of them silent.",
        "2 groups with commits.",
    ):
        expect(gates.get_by_text(said, exact=True)).to_be_visible()
    expect(page.locator("#moves-title")).to_contain_text(f"as generation {generation}; waits for {target}")
    assert cells(page.locator("#moves tbody tr")) == [[place, str(len(clients))]]
    assert page.locator("#clients li").all_inner_texts() == clients
    # Lags and re-read records differ with every observation.
    assert [row[:2] for row in cells(page.locator("#lags tbody tr"))] == [[f"{place}/{STREAM}", "2"]]
    groups = {row[0]: (row[1], row[2], *row[5:]) for row in cells(page.locator("#groups tbody tr"))}
    assert groups == dict.fromkeys(("g0", "g1"), (place, "2", "1", "0"))
    rows = cells(page.locator("#expected tbody tr"))
    assert [said.split("\n")[0] for said, _ in rows] == ["Holding", "Draining", "Closing", "Moving"]
    parts = [milliseconds(took) for _, took in rows]
    whole = page.locator("#expected-title small").inner_text()
    assert milliseconds(whole) == pytest.approx(sum(parts), abs=50 * (len(parts) + 1)), "each is rounded"


def cells(rows: Locator) -> list[list[str]]:
    """Return the texts of a table."""
    found: list[list[str]] = rows.evaluate_all("all => all.map(row => [...row.cells].map(each => each.innerText))")
    return found


def milliseconds(shown: str) -> float:
    """Parse `812 ms` or `4.2 s`."""
    number, unit = shown.split()
    return float(number) * {"ms": 1, "s": 1000}[unit]


# --- the switch


def start(page: Page, source: str) -> str:
    """Type the confirmation; return the id of the started switch."""
    page.get_by_label(f"Type {source} to start").click()
    page.keyboard.type(source)
    page.get_by_role("button", name="Start switch").click()
    expect(page).to_have_url(re.compile(r"/switches/[0-9a-f]{12}$"), timeout=PATIENT)
    expect(page.locator("#state")).to_be_visible(timeout=PATIENT)
    page.evaluate(RECORD)
    return page.url.rpartition("/")[2]


def watch_it_hold(page: Page, slow: ByHand) -> None:
    """Check that the switch waits for one client, by name, and offers to force it or to abort."""
    expect(page.locator("#waits-for")).to_have_text("Waiting for 1 client to hold.", timeout=PATIENT)
    expect(page.locator("#state")).to_have_text("Holding")
    expect(page).to_have_title(re.compile(rf"^Holding: Switch \d+ · {OLD} → {NEW} "))
    expect(page.locator("#live")).to_have_text("live", timeout=PATIENT)
    assert [row[0] for row in cells(page.locator("[data-client]"))] == [slow.name]
    expect(page.locator("#held")).to_have_text(re.compile(r"^[\d.]+ m?s$"))
    expect(page.get_by_role("link", name="Abort")).to_be_visible()
    expect(page.get_by_role("link", name="Continue without 1 client")).to_be_visible()


def look_on(other: Page, switch: str, slow: ByHand) -> None:
    """Check that a user without permission sees the same, and why there are no buttons."""
    other.reload()
    other.locator(f"[data-switch='{switch}']").get_by_role("link").click()
    expect(other.locator("#state")).to_have_text("Holding", timeout=PATIENT)
    expect(other.locator(f"[data-client='{slow.name}']")).to_be_visible()
    offers_nothing(other)
    other.evaluate(RECORD)


def offers_nothing(other: Page) -> None:
    cockpit = other.locator("#cockpit")
    expect(cockpit.locator("#why-not")).to_be_visible()
    expect(cockpit.get_by_role("button")).to_have_count(0)
    for name in ("Abort", "Continue without", "reverse", "Plan again"):
        expect(cockpit.get_by_role("link", name=name)).to_have_count(0)


def check_end(page: Page, source: str, target: str, *, clients: int) -> None:
    """Check that the page went through the phases by itself, and that its report lists no one."""
    expect(page.locator("#report")).to_be_visible(timeout=PATIENT)
    expect(page.locator("#state")).to_have_text("Completed")
    expect(page).to_have_title(re.compile(rf"^Completed: Switch \d+ · {source} → {target} "))
    seen, order = page.evaluate("window.seen"), list(LABELS.values())
    assert seen == sorted(seen, key=order.index) and seen[-1] == LABELS[Phase.COMPLETED]
    expect(page.locator("#live")).to_be_hidden(timeout=PATIENT)
    expect(page.locator("#waits-for")).to_have_text("Moved, all records drained")
    figures = dict(
        page.locator("#report .figure-of").evaluate_all(
            "all => all.map(each => [...each.children].map(one => one.textContent))"
        )
    )
    assert milliseconds(figures.pop("Producer hold time")) > 0
    assert figures == {
        "Records not drained": "0",
        f"Clients on {target}": str(clients),
        "Groups translated": "2",
        "Offsets set": "4",
        "Maximum re-read records": "0",
        f"Residual writes to {source}": "0",
    }
    # No client was forced, late, silent or left behind.
    expect(page.locator("#report .named > div")).to_have_count(0)
    expect(page.locator("#track [data-state='done']")).to_have_count(6)


def check_active(page: Page, tenant: Tenant, cluster: str, generation: int, switch: str) -> None:
    """Check what the tenant's page, the list of switches and discovery show."""
    assert tenant.active() == (cluster, generation)
    page.goto(f"{tenant.url}/tenants/{tenant.name}", wait_until="domcontentloaded")
    expect(page.locator("[data-environment='prod'] [data-active]")).to_have_text(cluster, timeout=PATIENT)
    page.get_by_role("link", name="Switches").click()
    row = page.locator(f"[data-switch='{switch}']")
    expect(row).to_contain_text("Completed", timeout=PATIENT)
    expect(row).to_contain_text("moved, all records drained")
