"""The side bar, the row above the content, the user menu and the search's actions, in real Chromium."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support.console.consoles import Console


def test_pages_by_keyboard_and_an_action_that_leads_to_its_form(
    acme: Console, open_page: Callable[..., Page]
) -> None:
    page = open_page(acme, "/tenants")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Overview").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Tenants").first).to_be_focused()
    expect(page.locator(".side-bar [aria-current=page]")).to_have_text("Tenants")
    page.get_by_role("button", name="Collapse side bar").focus()
    page.keyboard.press("Enter")
    page.reload()
    bar = page.locator(".side-bar").bounding_box()
    assert bar is not None and bar["width"] == 56
    page.get_by_role("button", name="Expand side bar").click()
    page.keyboard.press("Control+k")
    page.keyboard.type("plan switch acme")
    expect(page.locator("#finder-hits a.chosen")).to_have_text("Plan switch of acme/retail/prod")
    page.keyboard.press("Enter")
    page.wait_for_url("**/switches/plan?*")
    scope = page.get_by_label("Scope")
    expect(scope).to_have_value("acme/retail/prod")
    scope.fill("glob")
    suggested = page.locator(".names-list").get_by_role("option")
    expect(suggested).to_have_text(["globex", "globex/shop", "globex/shop/prod"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(scope).to_have_value("globex/shop")
    expect(suggested).to_have_count(0)


def test_a_telephone_has_one_row_and_the_pages_in_a_drawer(acme: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(acme, "/tree", java_script_enabled=False)
    page.set_viewport_size({"width": 390, "height": 844})
    boxes = [each.bounding_box() for each in page.locator(".bar > *").all() if each.is_visible()]
    middles = {round(box["y"] + box["height"] / 2) for box in boxes if box is not None}
    assert len(boxes) >= 5 and max(middles) - min(middles) <= 2, middles
    assert page.locator(".bar").bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 48}
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Switches").click()
    page.wait_for_url("**/switches")
    page.locator(".who > summary").click()
    expect(page.locator(".who")).to_contain_text("Role: admin")
    page.get_by_role("link", name="Account").click()
    page.wait_for_url("**/account")
