"""The player of drills in real Chromium, with and without JavaScript; and pictures of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from backend.replication_lab.runs.drills import drill
from backend.replication_lab.scenarios import SCENARIOS
from backend.web.lab.lab_wires import PITCH, wires_of
from tests.browser.switch.test_switch_pictures import folder, taken
from tests.nightly import some_now
from tests.support.console.consoles import Console

__all__ = ["folder"]

LOSS = "/drills/replication/hw-truncation-loss"
OVERFULL = """() => [...document.querySelectorAll(".lane")]
  .filter((each) => each.scrollHeight > each.clientHeight || each.scrollWidth > each.clientWidth)
  .map((each) => each.innerText)"""
# Labels of arrows that lie on something: on an edge of a lane, an arrow, its number, a cut, or another label.
COVERED = """() => {
  const stage = document.querySelector(".stage").getBoundingClientRect();
  const all = (selector) => [...document.querySelectorAll(selector)].map((each) => each.getBoundingClientRect());
  const [labels, lanes] = [[...document.querySelectorAll(".wires .label")], all(".lane")];
  const meets = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  return labels.filter((each) => {
    const at = each.getBoundingClientRect();
    const others = labels.filter((other) => other !== each).map((other) => {
      const box = other.getBoundingClientRect();
      return { left: box.left, right: box.right, top: box.top + 2, bottom: box.bottom - 2 };
    });
    const lines = [...all(".wire .shaft, .wire .head, .wire circle, .cut path, .cut circle"), ...others];
    return at.right > stage.right || lines.some((line) => meets(at, line))
      || lanes.some(({ top, bottom }) => [top, bottom].some((edge) => at.top + 2 < edge && edge < at.bottom - 2));
  }).map((each) => each.textContent);
}"""
WIDEST = """(lines) => Math.max(...lines.map((line) => {
  const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
  text.textContent = line;
  document.querySelector(".wires").append(text);
  return text.getComputedTextLength();
}))"""
MIDDLES = """() => [...document.querySelectorAll(".lane")].map((each) => each.offsetTop + each.offsetHeight / 2)"""


def step(page: Page, at: int) -> None:
    """Expect the page to show this step, with the step's address."""
    expect(page.locator("#step")).to_have_value(str(at))
    expect(page.locator("#story [aria-current] .position")).to_have_text(str(at))
    expect(page).to_have_url(re.compile(rf"step={at}(&|$)"))


def test_it_is_stepped_by_buttons_keys_slider_and_story(console: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(console, "/drills")
    page.get_by_role("link", name="Play hw-truncation-loss, faithful").click()
    expect(page.locator("#sentence")).to_contain_text("Broker 1 leads")
    page.get_by_role("link", name="Next").click()
    step(page, 1)
    page.keyboard.press("ArrowRight")
    step(page, 2)
    page.keyboard.press("ArrowLeft")
    step(page, 1)
    page.keyboard.press("End")
    step(page, 15)
    expect(page.locator("#violated")).to_contain_text("Violated: a committed record is never lost")
    expect(page.locator("#committed .cell.lost")).to_have_count(1)
    page.keyboard.press("Home")
    step(page, 0)
    page.locator("#story a", has_text="Broker 2 crashes").click()
    step(page, 9)
    expect(page.locator("#broker-2")).to_contain_text("dead")
    page.locator("#step").fill("12")
    step(page, 12)
    # An address gives the same page to others, and the browser's way back leads out of the drill.
    page.reload()
    step(page, 12)
    page.go_back()
    expect(page.locator("#scenarios")).to_be_visible()


@pytest.mark.nightly  # stepping by every means stays; playing steps by a timer
def test_it_plays_until_the_end_or_until_it_is_paused(console: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(console, f"{LOSS}?step=10", reduced_motion="reduce")
    page.get_by_role("button", name="Play").click()
    step(page, 11)
    step(page, 12)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    at = int(page.locator("#step").input_value())
    page.wait_for_timeout(2_000)
    step(page, at)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    step(page, 15)
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    # At the end it begins again.
    page.get_by_role("button", name="Play").click()
    step(page, 0)


@pytest.mark.nightly  # addresses of other runs: test_lab_player
def test_modes_and_seeds_are_other_pages(console: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(console, LOSS)
    page.locator("[data-mode=fixed]").click()
    expect(page.locator("#outcome")).to_contain_text("All invariants hold fixed, seed 1")
    page.get_by_role("textbox", name="Seed").fill("12")
    page.get_by_role("button", name="Use this seed").click()
    expect(page.locator("#outcome")).to_contain_text("All invariants hold fixed, seed 12")
    page.get_by_role("link", name="Another seed").click()
    expect(page.locator("#outcome")).to_contain_text("seed 13")


def test_without_javascript_it_is_whole(console: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(console, LOSS, java_script_enabled=False)
    expect(page.locator("#play")).to_be_hidden()
    page.get_by_role("link", name="Next").click()
    step(page, 1)
    page.locator("#step").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Go").click()
    step(page, 5)
    page.locator("#go-last").click()
    step(page, 15)
    expect(page.locator("#violated")).to_be_visible()


@some_now("width", [1280, 1000], now=())
def test_lanes_are_as_high_as_the_wires_between_them_are_drawn_for(
    console: Console, open_page: Callable[..., Page], width: int
) -> None:
    page = open_page(console, "/drills")
    page.set_viewport_size({"width": width, "height": 900})
    for path in (
        f"{LOSS}?step=8",
        "/drills/replication/reassignment-before-acknowledgement?mode=fixed&step=140",
        "/drills/replication/two-leaders?step=14",
        "/drills/replication/isr-written-by-the-replaced?mode=fixed&step=25",
    ):
        page.goto(f"{console.url}{path}")
        assert page.evaluate(OVERFULL) == [], path
        middles = set(page.evaluate(MIDDLES))
        ends = page.locator(".wire .from").evaluate_all("all => all.map((each) => +each.getAttribute('cy'))")
        assert set(ends) <= middles, path


@pytest.mark.nightly  # a look at four pictures
def test_no_label_of_an_arrow_lies_on_anything(console: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(console, "/drills")
    for path in (
        "/drills/replication/log-divergence?mode=fixed&step=4",
        "/drills/replication/log-divergence?step=18",
        f"{LOSS}?step=8",
        "/drills/replication/two-leaders?step=14",
    ):
        page.goto(f"{console.url}{path}")
        page.evaluate("document.fonts.ready.then(() => true)")
        expect(page.locator(".wires .label").first).to_be_visible()
        assert page.evaluate(COVERED) == [], path
    lines = {
        line
        for name in SCENARIOS
        for mode in ("faithful", "fixed")
        for moment in drill(name, mode, 1, with_frames=True).moments
        for wire in wires_of(moment.frame).messages
        for _, line in wire.label
    }
    assert len(lines) > 100
    # Beside an arrow 12 pixels are left free, and 8 are of the next one's number.
    assert page.evaluate(WIDEST, sorted(lines)) <= PITCH - 12 - 8


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(console: Console, open_page: Callable[..., Page], folder: Path | None) -> None:
    page = open_page(console, "/drills")
    taken(page, "drills", folder)
    for name, path in (
        ("lab-long", "/drills/replication/reassignment-before-acknowledgement?mode=fixed&step=140"),
        ("lab-loss", f"{LOSS}?step=15"),
    ):
        page.goto(f"{console.url}{path}")
        taken(page, name, folder)
