"""The Tree page of the default estate: five real clusters, twelve real distributors, real records."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.estate.running import DEFAULT_ESTATE, RunningEstate

# Contract, "Kafka": the default targets on the default estate.
TARGETS = {
    "cluster-1:2": "cluster-2",
    "cluster-1:3": "cluster-4",
    "cluster-2:1": "cluster-3",
    "cluster-2:2": "cluster-1",
    "cluster-2:3": "cluster-5",
    "cluster-3:1": "cluster-2",
    "cluster-3:2": "cluster-1",
    "cluster-3:3": "cluster-4",
    "cluster-4:1": "cluster-5",
    "cluster-4:3": "cluster-1",
    "cluster-5:1": "cluster-4",
    "cluster-5:3": "cluster-2",
}
RUN_SECONDS = 60
# Enough for several updates of the page while they are copied.
RECORDS = 10_000
RATE = "[data-distributor='cluster-1:3'] .rate"
# Keeps every text that an element ever shows.
RECORD = """selector => {
  const look = () => window.seen.add(document.querySelector(selector).textContent);
  window.seen = new Set();
  look();
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


def rates(page: Page) -> set[str]:
    """Return the non-zero rates that the page has shown."""
    return set(page.evaluate("[...window.seen]")) - {"0/s"}


@pytest.mark.nightly
def test_twelve_distributors_run_and_their_rates_follow_the_records(boot_estate, open_page) -> None:
    # Its own stream: on a shared one, distributors may be degraded by other tests.
    estate = boot_estate(DEFAULT_ESTATE)
    page = open_page(Console(estate.url, estate.token), "/tree")
    arrows = page.locator("svg [data-distributor]")
    found = arrows.evaluate_all("all => all.map(({dataset}) => [dataset.distributor, dataset.target])")
    assert dict(found) == TARGETS
    assert len(found) == 12
    expect(page.locator("svg [data-distributor][data-state='running']")).to_have_count(
        12, timeout=RUN_SECONDS * 1000
    )
    expect(page.locator(".leaf[data-state='online']")).to_have_count(5)
    expect(page.locator("#summary")).to_contain_text(re.compile(r"Distributors running\s*12 of 12"))
    expect(page.locator("#notices")).to_be_empty()
    page.evaluate(RECORD, RATE)
    with ThreadPoolExecutor(1) as pool:
        verified = pool.submit(estate.treeline, "verify", "--records", str(RECORDS), "--json")
        eventually(lambda: rates(page) or verified.done(), "records flow on the page, or verify ends")
        outcome = verified.result()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert rates(page), "records were copied, and the page never said so"
    # And it becomes idle again.
    expect(page.locator("#total-lag")).to_have_text("0", timeout=RUN_SECONDS * 1000)
    expect(page.locator(RATE)).to_have_text("0/s", timeout=RUN_SECONDS * 1000)


def test_what_the_api_appends_is_on_the_page_without_a_reload(estate: RunningEstate, open_page) -> None:
    page = open_page(Console(estate.url, estate.token), "/tree", color_scheme="dark")
    page.evaluate("window.sameDocument = true")
    RestClient(estate.url, estate.token).ok("POST", "/tenants", {"name": "seen-on-page"})
    expect(page.locator("#timeline")).to_contain_text("Tenant seen-on-page created")
    assert page.evaluate("window.sameDocument")
