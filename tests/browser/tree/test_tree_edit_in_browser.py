"""The tree editor in real Chromium: by mouse, by keyboard alone, and without JavaScript; with pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.nightly import some_now
from tests.support.console.consoles import Console

EDIT = "/tree/edit"


@pytest.fixture
def five(acme: Console) -> Console:
    """Return a console with two clusters more than the tree has."""
    for name in ("c4", "c5"):
        body = {"name": name, "bootstrap_servers": "127.0.0.1:8", "accept_offline": True}
        acme.rest.ok("POST", "/clusters", body)
    return acme


def tree(console: Console) -> str:
    """Return the current tree as text: `2(c1, 1(c2, c3))`."""

    def text(node: dict) -> str:
        return node.get("cluster") or f"{node['level']}({', '.join(map(text, node['children']))})"

    return text(console.rest.ok("GET", "/trees/main")["root"])


def add_c4_beside_c1(page: Page) -> None:
    page.locator("#node-r0").click()
    expect(page.locator("#chosen-title")).to_have_text("c1")
    page.get_by_label("Add a cluster beside it").select_option("c4")
    page.get_by_role("button", name="Add cluster", exact=True).click()
    expect(page.locator("#node-r01")).to_have_attribute("aria-label", "c4 joins")


@some_now("scripts", [True, False], now=(1,), ids=["with JavaScript", "without JavaScript"])
def test_by_mouse(five: Console, open_page, scripts: bool) -> None:
    page = open_page(five, "/tree", java_script_enabled=scripts)
    page.get_by_role("link", name="Edit tree").click()
    add_c4_beside_c1(page)
    expect(page.locator("#proof")).to_have_attribute("data-proven", "yes")
    page.locator("#node-r1").click()
    page.get_by_role("button", name="Swap sides").click()
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c3 leaf")
    page.go_back()
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c2 leaf")
    page.go_forward()
    page.get_by_role("link", name="Undo").click()
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c2 leaf")
    page.get_by_role("link", name="Redo").click()
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c3 leaf")
    page.get_by_label("Level, 1 to 31").fill("2")
    page.get_by_role("button", name="Set level").click()
    expect(page.locator("[data-wrong='r1']")).to_contain_text("level 2 is not below its parent's")
    expect(page.get_by_role("button", name="Preview")).to_be_disabled()
    page.get_by_role("button", name="Raise the levels above").click()
    expect(page.locator("#node-r")).to_have_attribute("aria-label", "level 3")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-list^='Distributors that start']")).to_contain_text("c4:1 → c1")
    assert tree(five) == "2(c1, 1(c2, c3))", "nothing was set yet"
    page.get_by_role("button", name="Save tree").click()
    page.wait_for_url("**/tree")
    assert tree(five) == "3(1(c1, c4), 2(c3, c2))"


def test_by_keyboard_alone(five: Console, open_page) -> None:
    page = open_page(five, EDIT)
    expect(page.locator("#keys")).to_be_visible()
    page.locator("#node-r").focus()
    for key, chosen in (("ArrowDown", "r0"), ("ArrowRight", "r1"), ("ArrowDown", "r10"), ("ArrowRight", "r11")):
        page.keyboard.press(key)
        expect(page.locator(f"#node-{chosen}")).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator("#node-r1")).to_have_attribute("aria-label", "c2 leaf")
    expect(page.locator("#node-r1")).to_be_focused()
    page.keyboard.press("Control+z")
    expect(page.locator("#node-r11")).to_have_attribute("aria-label", "c3 leaf")
    expect(page.locator("#node-r1")).to_be_focused()
    page.keyboard.press("s")
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c3 leaf")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#node-r0")).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator("#add-with")).to_be_focused()
    page.keyboard.type("c5")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#node-r01")).to_have_attribute("aria-label", "c5 joins")
    page.keyboard.press("Control+z")
    expect(page.locator("#node-r0")).to_have_attribute("aria-label", "c1 primary")
    page.keyboard.press("Control+y")
    page.locator("#node-r01").wait_for()
    page.get_by_role("button", name="Preview").press("Enter")
    page.get_by_role("button", name="Save tree").press("Enter")
    page.wait_for_url("**/tree")
    assert "c5" in tree(five)


@pytest.mark.nightly  # by keyboard once more, faster
def test_keys_that_come_quicker_than_pages_are_kept(five: Console, open_page) -> None:
    """Check key presses: each acts on the page where the previous one led, not where it was pressed."""
    page = open_page(five, f"{EDIT}?node=r")

    held: list[Route] = []
    page.route("**/tree/edit?*", lambda route: held.append(route))
    for key in (
        "ArrowDown",
        "ArrowRight",
        "s",
        "ArrowDown",
        "Delete",
        "Control+z",
        "Control+z",
        "Control+y",
        "a",
        "s",
    ):
        page.keyboard.press(key)
    assert len(held) == 1, "one page is asked for, whatever is typed until it comes"
    page.unroute("**/tree/edit?*")  # goes on with what is held
    expect(page.locator("#add-with")).to_be_focused()
    expect(page.locator("#node-r10")).to_have_attribute("aria-label", "c3 leaf")
    expect(page).to_have_url(re.compile(r"steps=swap:r1,remove:r10&done=1&"))
    # No key press is left over for a later page.
    page.reload()
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#node-r")).to_be_focused()
    expect(page).to_have_url(re.compile(r"steps=swap:r1,remove:r10&done=1&"))


@pytest.mark.nightly  # the steps themselves: test_tree_edit and test_tree_edit
def test_a_move_and_an_exchange(five: Console, open_page) -> None:
    page = open_page(five, f"{EDIT}?node=r0")
    page.get_by_label("Move beside").select_option(label="c2")
    page.get_by_role("button", name="Move node", exact=True).click()
    expect(page.locator("#steps")).to_contain_text("Move c1 beside")
    page.locator("#node-r1").click()
    page.get_by_label("Replace by").select_option("c4")
    page.get_by_role("button", name="Replace cluster").click()
    expect(page.locator("#node-r1")).to_have_attribute("aria-label", "c4 joins")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(five: Console, open_page, folder: Path | None) -> None:
    page = open_page(five, EDIT)
    taken(page, "tree-edit-opened", folder)
    add_c4_beside_c1(page)
    taken(page, "tree-edit", folder)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Save tree").wait_for()
    taken(page, "tree-edit-preview", folder)
    page.go_back()
    page.locator("#node-r1").click()
    page.get_by_label("Level, 1 to 31").fill("2")
    page.get_by_role("button", name="Set level").click()
    page.locator("#wrong-nodes").wait_for()
    taken(page, "tree-edit-wrong", folder)
    page.goto(f"{five.url}{EDIT}?from=0")
    taken(page, "tree-edit-begin", folder)
    page.goto(f"{five.url}/tree")
    taken(page, "tree-with-forms", folder)
