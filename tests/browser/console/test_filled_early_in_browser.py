"""A form whose fields were filled in before its script listened still shows its effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.console.consoles import Console
from tests.support.console.visitors import PROD

FORM = f"{PROD}/-new"


def test_what_is_chosen_before_the_script_is_there_is_checked(
    acme: Console, open_page: Callable[..., Page]
) -> None:
    page = open_page(acme, "/account")
    held: list[Route] = []
    page.route("**/htmx*", lambda route: held.append(route))
    page.goto(f"{acme.url}{FORM}", wait_until="commit")
    page.get_by_label("Name", exact=True).fill("orders")
    assert len(held) == 1, "nobody has listened yet"
    expect(page.locator("#verdict").first).to_contain_text("Enter a name")
    held[0].continue_()
    expect(page.locator("#verdict").first).to_contain_text("stream acme/retail/prod/orders already exists")


@pytest.mark.nightly  # the other half of the same script
def test_a_form_as_it_came_asks_for_nothing(acme: Console, open_page: Callable[..., Page]) -> None:
    page = open_page(acme, "/account")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.goto(f"{acme.url}{FORM}", wait_until="networkidle")
    page.goto(f"{acme.url}/placements/-new", wait_until="networkidle")
    page.wait_for_timeout(500)  # twice the delay after typing
    assert set(sent) == {"GET"}
