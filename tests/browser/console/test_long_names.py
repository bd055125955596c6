"""Names of maximum length: they push no column of any page out of sight, in real Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOffline
from backend.domain.offsets.observed_group import GroupMember
from backend.domain.switch.switch_commands import Moving
from backend.queries.offsets.offset_tables import groups_not_followed
from backend.web.words.long_names import LONGEST_WHOLE, wrapping
from tests.browser.clusters.test_adoption_page import held
from tests.browser.console.test_gallery import UNTOLD, console, filled, follow
from tests.browser.offsets.test_offsets_page import ORDERS, committed
from tests.postgres.schemas.test_schemas_pages import avro, version, was_read
from tests.support.console.consoles import Console
from tests.support.console.gallery import FILLED_PICTURES, GROUP, PROD, Picture
from tests.support.console.grouping import group as observed_group
from tests.support.console.grouping import observed
from tests.support.console.grouping import partition as observed_partition
from tests.support.console.placing import ask, cluster, documents, planned
from tests.support.console.switching import commands, start
from tests.support.console.visitors import record
from tests.support.database.postgres import Database
from tests.unit.clusters.test_adoption import TOPIC

__all__ = ["console", "filled"]

TENANT, NAME, LONGEST = "t" * 100, "n" * 45, "g" * 249
"""Four parts of a stream's name make a topic, which has 249 characters at most."""
PLACE = {"tenant": TENANT, "instance": NAME, "environment": NAME}
ENVIRONMENT = f"{TENANT}/{NAME}/{NAME}"
STREAM, APPLICATION = f"{ENVIRONMENT}/{NAME}", "a" * 100
SUBJECT = f"{STREAM.replace('/', '-')}-value"
USER, MACHINE = "u" * 100, "k" * 63
INSTEAD = {
    f"{PROD}/orders/-messages": f"{PROD}/orders/-messages",  # the stream with the longest name has no topic yet
    f"{PROD}/orders": f"/tenants/{STREAM}",
    f"{PROD}/-applications/billing": f"/tenants/{ENVIRONMENT}/-applications/{APPLICATION}",
    "application=acme/retail/prod/billing": f"application={ENVIRONMENT}/{APPLICATION}",
    PROD: f"/tenants/{ENVIRONMENT}",
    "/tenants/acme/retail": f"/tenants/{TENANT}/{NAME}",
    "/tenants/acme/-members/ada": f"/tenants/{TENANT}/-members/{USER}",
    "/tenants/acme": f"/tenants/{TENANT}",
    "/users/ada": f"/users/{USER}",
    "/clusters/c1": f"/clusters/{MACHINE}",
    "/placements/p1": "/placements/p9",
    "/switches/s1": "/switches/s9",
    GROUP: f"/groups/-of?cluster={MACHINE}&group={LONGEST}",
    "/offsets/-reset": f"/offsets/-reset?group={LONGEST}&stream={STREAM}&cluster={MACHINE}",
    "/find?q=ord": "/find?q=nn",
    "/schemas/c1/acme-retail-prod-orders-value": f"/schemas/c1/{SUBJECT}",
    "stream=acme/retail/prod/orders&cluster=c1": f"stream={STREAM}&cluster=c1",
    "/timeline/52/": "/timeline/{declared}/",
    "/timeline/3": "/timeline/{declared}",
    "from=3&to=12": "from={before}&to={declared}",
}
"""Beginnings of the gallery's addresses, and their replacements with the longest names."""
SIZES = (1440, 1280, 390)


@pytest.fixture
def longest(filled: Console, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """Yield the gallery's content, with resources that have the longest names beside it."""
    rest = filled.rest
    below = f"/tenants/{TENANT}/instances/{NAME}/environments"
    rest.ok("POST", "/tenants", {"name": TENANT})
    rest.ok("POST", f"/tenants/{TENANT}/instances", {"name": NAME})
    rest.ok("POST", below, {"name": NAME})
    rest.ok("POST", f"{below}/{NAME}/streams", {"name": NAME, "partitions": 4})
    was_read(filled, "c1", version(SUBJECT, 1, 9, avro("f" * 100)))
    groups = {"groups": ["g" * 56], "produces": [NAME]}
    rest.ok("POST", f"{below}/{NAME}/applications", {"name": APPLICATION, "consumes": [STREAM, ORDERS], **groups})
    rest.ok("POST", f"{below}/{NAME}/applications/{APPLICATION}/credentials")
    rest.ok("POST", "/users", {"name": USER, "role": "tenant", "tenants": {TENANT: "owner"}})
    rest.ok("POST", f"/users/{USER}/tokens", {"name": "t" * 100})
    machine = {"name": MACHINE, "bootstrap_servers": f"{'b' * 240}:9092", "accept_offline": True}
    rest.ok("POST", "/clusters", {**machine, "properties": {"client.id": LONGEST}})
    committed(database, STREAM, LONGEST)
    committed(database, ORDERS, LONGEST, reason=LONGEST)
    names = {"technical_group": LONGEST, "group": LONGEST, "place": ENVIRONMENT}
    member = GroupMember(member_id=LONGEST, client_id=LONGEST, host="h" * 240, instance_id=LONGEST, partitions=1)
    reads = [
        observed_partition(0, stream=STREAM, member=LONGEST),
        observed_partition(0, stream=None, topic=LONGEST),
    ]
    observed(database, observed_group(cluster=MACHINE, members=[member], partitions=reads, **names))
    with database.engine.begin() as connection:
        silent = {"cluster": MACHINE, "technical_group": LONGEST, "topic": LONGEST, "reason": LONGEST}
        connection.execute(sa.insert(groups_not_followed).values(**silent, seen_at=sa.func.now()))
    ask(database, "p9")
    racks = ["az1", "z" * 100, "az3"] * 2
    planned(database, "p9", documents(cluster(racks, {"t" * 249: 12, "s" * 249: 6}, empty=3)))
    held(monkeypatch).append(replace(TOPIC, topic="t" * 249, topic_id="t9"))
    commands(database, start("s9", target="c3", moves=(Moving(**PLACE),)), switch="s9")
    record(database, RecordOffline(reason=LONGEST), CLUSTER, f"cluster-{MACHINE}")
    yield filled


def address_of(picture: Picture, declared: int) -> str:
    """Return the address of the same page for the resource with the longest names, if there is one.

    `declared` is the position of the event that declared the stream with the longest name.
    """
    usual = next((each for each in INSTEAD if each in picture.address), None)
    if usual is None:
        return picture.address
    position = {"{declared}": str(declared), "{before}": str(declared - 2)}
    found = picture.address.replace(usual, INSTEAD[usual], 1)
    for name, number in position.items():
        found = found.replace(name, number)
    return found


def declared(console: Console) -> int:
    found = console.rest.ok("GET", f"/events?name=StreamDeclared&stream=tenant-{TENANT}")
    position: int = found["items"][0]["position"]
    return position


# Faults of tables: each fits into the room of its page, or can be scrolled on a telephone; no column is wider than
# that. Cells are those of one column.
TABLES = """() => [...document.querySelectorAll('main table')].filter(each => each.offsetWidth).flatMap(each => {
  const room = (each.closest('.scroll') ?? each.parentElement).clientWidth + 1;
  const cells = [...each.querySelectorAll('th, td')].filter(cell => cell.colSpan < 2);
  const widest = Math.max(0, ...cells.map(cell => cell.offsetWidth));
  const wide = innerWidth > 800 ? each.offsetWidth : widest;
  return wide > room ? [`${each.id || each.className} has ${each.offsetWidth} of ${room}, a cell ${widest}`] : [];
})"""


@pytest.mark.nightly
def test_no_page_loses_anything_to_a_long_name(longest: Console, open_page: Callable[..., Page]) -> None:
    """Nothing is beyond the right edge of a page, except tables that scroll on a telephone."""
    open_page(longest, "/account")  # another session, to be ended
    page = open_page(longest, "/account", expect_errors=True)
    event = declared(longest)
    wrong = []
    for picture in FILLED_PICTURES:
        address = address_of(picture, event)
        answer = page.goto(f"{longest.url}{address}", wait_until="load")
        if answer is None or answer.status != 200:
            wrong.append(f"{address}: {answer and answer.status}")
        follow(page, picture)
        for width in SIZES:
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate(TABLES)
            whole = page.evaluate("document.documentElement.scrollWidth")
            found += [f"the page has {whole}"] if whole > width else []
            found += [f"{each} goes on without a shadow" for each in page.evaluate(UNTOLD)] if width < 800 else []
            wrong += [f"{address}, {width} wide: {each}" for each in found]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("page", "wraps"),
    [
        (f"<table><tr><td>{LONGEST}</td></tr></table>", 1),
        (f"<table><tr><th><a href='/{LONGEST}'>x {LONGEST} y</a></th></tr></table>", 1),
        (f"<table><tr><td>{'a' * LONGEST_WHOLE} 2023-11-14 22:14:20</td></tr></table>", 0),
        (f"<p>{LONGEST}</p><table><tr><td title='{LONGEST}'>x</td></tr></table>", 0),
        (f"<table><tr><td><svg><title>{LONGEST}</title></svg><pre>{LONGEST}</pre></td></tr></table>", 0),
        (f'<table class="diff"><tr><td>{LONGEST}</td></tr></table>', 0),
        (f"<table><tr><td>{LONGEST}</td><td>{LONGEST}</td></tr></table>", 2),
    ],
)
def test_only_long_words_of_tables_wrap(page: str, wraps: int) -> None:
    marked = wrapping(page)
    assert marked.count('<span class="long">') == wraps
    assert marked.replace('<span class="long">', "").replace("</span>", "") == page
