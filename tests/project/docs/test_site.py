"""The docs site: built with warnings as errors, whole without any other host, with a search, dark and light."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from backend.estate.ports import free_ports
from tests.project.docs.pages import DOCS
from tests.support.console.chromium import CHROMIUM, CHROMIUM_FLAGS

pytestmark = pytest.mark.nightly  # `make docs` builds it with warnings as errors; links are in test_links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-d",
            folder / "doctrees",
            DOCS,
            folder / "html",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Yield the site's URL: its search reads pages by HTTP, which browsers refuse for files."""
    port = free_ports(1)[0]
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Request handler without logs."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[Page]:
    """Yield a page of a browser that records its requests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser.new_page(color_scheme="light")
        browser.close()


def test_every_page_is_in_it(site: Path) -> None:
    written = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert {path for path in written if not (site / f"{path}.html").exists()} == set()
    # The navigation has all pages but the decisions, which have a page of their own.
    start = (site / "index.html").read_text()
    led_to = {Path(each) for each in re.findall(r'href="([^":#]+)\.html"', start)}
    assert {each for each in written if each not in led_to and each.parts[0] != "decisions"} <= {Path("index")}


def test_it_is_whole_by_itself_and_found_by_its_search(address: str, page: Page) -> None:
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in ("index", "howto/switch-clients", "console-gallery"):
        page.goto(f"{address}/{name}.html", wait_until="load")
    page.goto(f"{address}/search.html?q=barrier")
    expect(page.locator("ul.search li").first).to_be_visible()
    assert {each for each in asked if not each.startswith((address, "data:"))} == set()
    assert wrong == []


@pytest.mark.nightly  # a look
def test_it_is_dark_where_the_system_is(address: str, page: Page) -> None:
    page.goto(f"{address}/index.html")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate(background) != light
