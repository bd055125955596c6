"""Every page of the gallery in real Chromium: it exists, and nothing overflows, wide or narrow.

`make pictures` (TREELINE_GALLERY=docs/images/gallery) takes the documentation's pictures with this test.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, ViewportSize

from backend.cluster_requests.tracing import Trace, TracedCopy, TracedOrigin
from backend.domain.distribution.trace import CameFrom
from backend.domain.replication.replication_health import TopicSettings
from backend.domain.switch.cluster_switch import Phase
from backend.queries.history import snapshots
from backend.registry.records import ConfigSet
from backend.web.distribution import trace_page
from tests.browser.clusters.test_adoption_page import held
from tests.browser.console import pictures
from tests.browser.distribution.test_losses_page import add_dead_letter, lose
from tests.browser.offsets.test_offsets_page import ITEMS, ORDERS, committed
from tests.browser.replication.test_what_if_page import SOUND, lost, says
from tests.browser.switch.test_switch_pictures import ARROWS
from tests.postgres.schemas.test_schemas_pages import MINE, NOBODYS, THEIRS, avro, version, was_read
from tests.postgres.webhooks.test_webhooks_pages import told_of
from tests.support.api.observations import observe
from tests.support.console.consoles import Console, serve_here
from tests.support.console.gallery import EMPTY, FILLED_PICTURES, LARGE, PICTURES, Picture
from tests.support.console.grouping import some_groups
from tests.support.console.large_trees import grow, report
from tests.support.console.measuring import a_week
from tests.support.console.placing import GROWN, ask, documents, failed, planned
from tests.support.console.replicating import look, looked_at
from tests.support.console.stream_contents import stream_says
from tests.support.console.switching import COMPLETED, all_online, client, clusters_say, commands, start, to
from tests.support.console.visitors import API_PROD
from tests.support.console.zoning import begin, reports
from tests.support.database.postgres import Database

KEPT = os.environ.get("TREELINE_GALLERY")
WIDE, NARROW = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
BORN_MS = 1_800_000_000_000
TRACED = Trace(
    origin=TracedOrigin("c1", 1, 41, BORN_MS, present=True),
    copies=(
        TracedCopy("c2", 44, 0b10, CameFrom("c1", certain=True), BORN_MS + 12),
        TracedCopy("c3", 39, 0b11, CameFrom("c2", certain=True), BORN_MS + 31),
    ),
    missing=(),
)


@pytest.fixture
def console(database: Database) -> Iterator[Console]:
    """Yield a console with registries, and clients that never expire."""
    with serve_here(
        database.url, with_schemas=True, discovery_ttl_ms=600_000, discovery_hold_ms=600_000
    ) as running:
        yield running


@pytest.fixture
def filled(acme: Console, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """Yield a console with content on every page; requests of pages to clusters, which do not run, are faked."""
    access(acme)
    all_online(database)
    schemas(acme)
    look(database, looked_at(away=(2,)), "id-0")
    for group, stream in (("billing", ORDERS), ("reports", ORDERS), ("shop", ITEMS)):
        committed(database, stream, group)
    assert snapshots.take_snapshot(database.engine)
    replicas(database)
    for name in ("checkout-1", "checkout-2", "import-1"):
        client(database, name, phase="held" if name == "checkout-2" else "active")
    client(database, "billing-1", role="consumer")
    commands(database, start("s0"), *COMPLETED[1:], switch="s0")
    commands(database, start(source="c2", target="c3", generation=3), to(Phase.HOLDING, missing_records=212))
    acme.rest.ok("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    for rate, (cluster, level, target) in enumerate(ARROWS):
        facts = {"records_per_second": 480.0 + 90 * rate, "lag_records": rate, "wait_seconds": 30.0 * rate}
        # No client expires while hundreds of pages are opened.
        observe(database.engine, cluster, level, target, seen_at=sa.text("now() + interval '1 hour'"), **facts)
    lose(database, 40, 44)
    add_dead_letter(database)
    told_of(acme, database)
    held(monkeypatch)
    a_week(database)
    some_groups(database)
    reports(acme)
    begin(database, 43, committed=39)
    monkeypatch.setattr(trace_page, "_traced", lambda *_: TRACED)
    stream_says(monkeypatch)
    usual = TopicSettings(min_insync_replicas=2, unclean_election=False)
    topics = {"acme-retail-prod-orders": SOUND, "globex-shop-prod-items": SOUND}
    says(monkeypatch, lost(topics, dict.fromkeys(topics, usual), told=True))
    with clusters_say(monkeypatch):
        yield acme


def access(console: Console) -> None:
    """Add users, a token, an application and its grant."""
    rest = console.rest
    rest.ok("POST", "/users", {"name": "ada", "role": "viewer", "tenants": {"acme": "member"}})
    rest.ok("POST", "/users", {"name": "grace", "role": "operator"})
    rest.ok("POST", "/users", {"name": "linus", "role": "tenant", "tenants": {"globex": "owner"}})
    rest.ok("POST", "/users/ada/tokens", {"name": "ci"})
    for name in ("payments", "invoices"):
        rest.ok("POST", f"{API_PROD}/streams", {"name": name, "partitions": 4})
    rest.ok(
        "POST",
        f"{API_PROD}/applications",
        {"name": "billing", "consumes": [ORDERS], "produces": ["invoices"], "groups": ["billing"]},
    )
    rest.ok("POST", f"{API_PROD}/applications/billing/credentials")


def schemas(console: Console) -> None:
    """Add subjects of both tenants and of no tenant on the primary, and their state on another cluster."""
    first = avro("id")
    was_read(
        console,
        "c1",
        version(MINE, 1, 1, first),
        version(MINE, 2, 2, avro("id", "note?")),
        version(THEIRS, 1, 3, avro("name")),
        version(NOBODYS, 1, 4, avro("loose")),
        ConfigSet(subject=MINE, fields={"compatibilityLevel": "FULL"}),
    )
    was_read(console, "c3", version("acme-prod-orders-value", 1, 1, first))


def replicas(database: Database) -> None:
    """Add a placement that is planned, and one that failed."""
    ask(database, "p1")
    planned(database, "p1", documents(GROWN))
    ask(database, "p2", "c2")
    failed(database, "p2", "brokers are unavailable (4, 5): start them, or set target_brokers without them")


# Content that is cut off at its edge without a sign; for code, cut words are the sign.
UNTOLD = """[...document.querySelectorAll('main *')].filter(each => {
  const style = getComputedStyle(each);
  return style.overflowX === 'auto' && each.scrollWidth > each.clientWidth + 1
    && !each.matches('pre, code') && !style.backgroundAttachment.includes('local');
}).map(each => `${each.localName}#${each.id}.${each.className}`)"""

# Words of prose that continue on the next line; names and code may have to.
BROKEN = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.parentElement.checkVisibility() || text.parentElement.closest('code, pre, .code, svg')) continue;
    for (const word of text.data.matchAll(/(?<![^\s(])[A-Za-z]{2,14}(?![^\s.,:;)])/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(each => Math.round(each.top))).size > 1) found.push(word[0]);
    }
  }
  return [...new Set(found)];
}"""


def taken(page: Page, picture: Picture) -> list[str]:
    """Check an open page in both widths, save the documentation's pictures, and return overflowing content."""
    wrong = []
    for size, ending, theme in ((WIDE, "", "light"), (WIDE, "-dark", "dark"), (NARROW, "-narrow", "light")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > size["width"]:
            wrong.append(f"{picture.way}: {width} of {size['width']} pixels")
        wrong += [f"{picture.way}: {each} is broken at {size['width']}" for each in page.evaluate(BROKEN)]
        wrong += [
            f"{picture.way}: {each} goes on without a shadow at {size['width']}" for each in page.evaluate(UNTOLD)
        ]
        if KEPT and ending in picture.looks:
            # Names in the side bar, the same in each picture, would be a tenth of all bytes.
            page.evaluate("scrollTo(0, 0)")  # a part that an address names may lie further down
            if picture.address != "/overview":
                page.evaluate("document.documentElement.dataset.sideBar = 'narrow'")
            pictures.keep(page, Path(KEPT) / f"{picture.name}{ending}.webp")
    return wrong


def follow(page: Page, picture: Picture) -> None:
    """Fill in and press the steps to the picture."""
    for act in picture.acts:
        field, fills, value = act.partition("=")
        if fills:
            page.get_by_label(field, exact=True).fill(value)
        else:
            with page.expect_navigation():
                page.get_by_role("button", name=act).first.click()


@pytest.mark.nightly
def test_every_page_is_there_and_has_its_room(filled: Console, open_page: Callable[..., Page]) -> None:
    if KEPT:
        Path(KEPT).mkdir(exist_ok=True, parents=True)
    open_page(filled, "/account")  # another session, to be ended
    page = open_page(filled, "/account", expect_errors=True, color_scheme="light")
    wrong = []
    for each in FILLED_PICTURES:
        if each.name == "login":
            page.context.clear_cookies()
        wrong += visited(page, filled, each)
    assert not wrong, "\n".join(wrong)


def visited(page: Page, console: Console, picture: Picture) -> list[str]:
    """Open a page and do its steps, as `taken`."""
    answer = page.goto(f"{console.url}{picture.address}", wait_until="load")
    assert answer is not None
    follow(page, picture)
    wrong = [] if answer.status == 200 else [f"{picture.address}: {answer.status}"]
    return wrong + taken(page, picture)


@pytest.fixture
def other_estate(request: pytest.FixtureRequest, console: Console, database: Database) -> Console:
    """Return a console of an empty estate, or of one with 50 clusters, a distributor of which is late."""
    if request.param == LARGE:
        names = grow(database, 50)
        report(database, names, {("c03", 5): {"lag_records": 70, "wait_seconds": 90.0}})
    return console


@pytest.mark.nightly
@pytest.mark.parametrize(("other_estate", "estate"), [(EMPTY, EMPTY), (LARGE, LARGE)], indirect=["other_estate"])
def test_so_are_those_of_other_estates(other_estate: Console, estate: str, open_page: Callable[..., Page]) -> None:
    page = open_page(other_estate, "/account", expect_errors=True, color_scheme="light")
    pictures = [each for each in PICTURES if each.estate == estate]
    assert pictures
    assert [each for picture in pictures for each in visited(page, other_estate, picture)] == []


@pytest.mark.nightly  # a look at all pictures
def test_a_card_is_called_what_is_read_on_it(filled: Console, open_page: Callable[..., Page]) -> None:
    """WCAG 2.5.3, with all parts of a card: users of voice control say what they see."""
    filled.rest.ok("PATCH", "/clusters/c2", {"zone": "az1"})
    card = open_page(filled, "/tree").locator("#leaf-c2")
    # Titles are tooltips, and not part of what is on the card.
    without_titles = """card => {
      const copy = card.cloneNode(true);
      copy.querySelectorAll('title').forEach(each => each.remove());
      return copy.textContent;
    }"""
    read = " ".join(card.evaluate(without_titles).split())
    assert read == "c2 online zone az1 1 active 2 unreplicated"
    assert (card.get_attribute("aria-label") or "").startswith(f"{read}. ")
