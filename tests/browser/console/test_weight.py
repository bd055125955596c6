"""Bytes of a first visit: everything that Chromium, with an empty cache, is sent for a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, Page, expect

from backend.settings import PROJECT_ROOT
from tests import report_facts
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.measuring import measured
from tests.support.database.postgres import Database

MOST_BYTES = 170_000
"""Headers, bodies as they are sent, fonts, styles, scripts: a second on a slow line (1.4 Mbit/s)."""
LEAST_LIVE_BYTES = 2_000
"""Minimum by which the stream's first event has come."""


@dataclass
class Weight:
    """Bytes by address, as the browser's network counts them."""

    paths: dict[str, str] = field(default_factory=dict)
    sizes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, page: Page) -> Weight:
        """Start to count what the page receives from now on, with an empty cache."""
        weight = cls()
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.clearBrowserCache")
        session.on("Network.requestWillBeSent", weight._asked)
        session.on("Network.dataReceived", lambda told: weight._came(told, told["encodedDataLength"]))
        # For completed requests the browser reports the total, including headers.
        session.on("Network.loadingFinished", weight._ended)
        return weight

    def _asked(self, told: dict[str, Any]) -> None:
        self.paths[told["requestId"]] = urlsplit(told["request"]["url"]).path
        self.sizes[told["requestId"]] = 0

    def _came(self, told: dict[str, Any], size: int) -> None:
        self.sizes[told["requestId"]] += size

    def _ended(self, told: dict[str, Any]) -> None:
        self.sizes[told["requestId"]] = int(told["encodedDataLength"])

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def files(self) -> list[tuple[str, int]]:
        """Return addresses with their bytes, the heaviest first."""
        return [(self.paths[request], size) for request, size in self.sizes.most_common()]

    def of_path(self, path: str) -> int:
        """Return the bytes received from an address so far."""
        return sum(size for request, size in self.sizes.items() if self.paths.get(request) == path)

    def told(self) -> str:
        """Return the sum, and its parts."""
        return "\n".join([f"{self.bytes:8,} in all", *(f"{size:8,} {path}" for path, size in self.files)])


def live_has_come(page: Page, weight: Weight) -> bool:
    page.wait_for_timeout(50)  # the browser reports progress only while it is queried
    return weight.of_path("/tree/live") >= LEAST_LIVE_BYTES


@some_now("path", ["/login", "/overview", "/charts", "/tree"], now=(1,))
def test_a_first_visit_is_light(acme: Console, database: Database, browser: Browser, path: str) -> None:
    if path == "/charts":
        many = [each * 1.5 for each in range(24 * 60)]
        measured(database, {("edge.lag_records", f"c{n}:1"): many[n:] for n in range(30)})
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    if path != "/login":
        page.goto(acme.login_link())
        page.goto("about:blank")
    weight = Weight.of(page)
    page.goto(f"{acme.url}{path}", wait_until="load")
    if path == "/tree":
        expect(page.locator("#live")).to_have_text("live")
        # All blocks of the page come once more by the stream, compressed.
        eventually(lambda: live_has_come(page, weight), "the stream has begun")
    page.evaluate("document.fonts.ready.then(() => true)")
    context.close()
    report_facts.leave(f"weight-{path[1:]}", {"path": path, "files": weight.files, "most": MOST_BYTES})
    assert weight.bytes < MOST_BYTES, weight.told()


@some_now(
    "takes, encoding",
    [("gzip, deflate", "gzip"), ("br, GZIP;q=0.5", "gzip"), ("gzip;q=0", None), ("", None)],
    now=(0, 2),
)
def test_text_comes_packed_to_those_who_take_it(console: Console, takes: str, encoding: str | None) -> None:
    with httpx2.stream("GET", f"{console.url}/static/console.css", headers={"Accept-Encoding": takes}) as answer:
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.headers["Vary"] == "Accept-Encoding"
        assert answer.read() == (PROJECT_ROOT / "frontend/static/console.css").read_bytes()
