"""A refusal is a page for browsers, and a problem document for programs."""

from __future__ import annotations

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.nightly import some_now
from tests.support.api import http
from tests.support.console.chromium import session_of
from tests.support.console.consoles import Console
from tests.support.console.visitors import PROD, Visitor, head, hidden, said, values, visitor

PERSON = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode": "navigate"}
LONG = f"/find?q={'x' * 400}"


def in_a_browser(user: Visitor, method: str, path: str, **given: object) -> httpx2.Response:
    return user.client.request(method, path, headers=PERSON, **given)  # type: ignore[arg-type]


@some_now(
    "method, path, status, says",
    [
        ("GET", "/nope", 404, "There is nothing at /nope."),
        ("GET", f"{PROD}/", 404, f"There is nothing at {PROD}/."),
        ("GET", LONG, 422, "at most 300 characters"),
        ("PUT", "/tree", 405, "/tree takes GET"),
    ],
    now=(0, 2),
)
def test_a_person_sees_a_page_with_a_way_on(acme: Console, method: str, path: str, status: int, says: str) -> None:
    user = visitor(acme, "operator")
    answer = in_a_browser(user, method, path)
    assert answer.status_code == status and answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store" and "default-src 'self'" in str(answer.headers)
    assert says in said(answer) and 'href="/tenants"' in answer.text and "<strong>operator</strong>" in answer.text
    as_program = user.client.request(method, path)
    assert as_program.status_code == status
    assert as_program.headers["content-type"] == "application/problem+json"
    assert as_program.headers.get("allow") == answer.headers.get("allow")


@pytest.mark.parametrize("headers", [{"HX-Request": "true"}, {"Sec-Fetch-Mode": "cors"}])
def test_a_script_of_a_page_gets_no_page(acme: Console, headers: dict[str, str]) -> None:
    answer = visitor(acme, "operator").client.get(LONG, headers=PERSON | headers)
    assert answer.headers["content-type"] == "application/problem+json"


@some_now("path", ["/api/v1/nope", "/api/v1/clusters?at=x", "/static/nope.js"], now=(1,))
def test_a_program_s_address_answers_a_document_to_everybody(acme: Console, path: str) -> None:
    answer = in_a_browser(visitor(acme, "operator"), "GET", path)
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_who_is_not_logged_in_is_asked_to(acme: Console) -> None:
    answer = http.get(f"{acme.url}/nope", headers=PERSON)
    assert answer.status_code == 404 and 'action="/login"' in answer.text
    assert "there is nothing at /nope" in said(answer)


def test_a_form_that_is_too_large_is_told_on_a_page(acme: Console) -> None:
    user = visitor(acme, "operator")
    before = head(acme)
    data = {"key": user.key, "step": "preview", "name": "x" * (2 << 20)}
    answer = in_a_browser(user, "POST", f"{PROD}/-new", data=data)
    assert answer.status_code == 413 and "A body has at most" in said(answer)
    assert head(acme) == before


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("step", ["preview", "confirm"])
def test_a_form_of_another_session_keeps_what_was_typed_and_changes_nothing(
    acme: Console, step: str, ended: bool
) -> None:
    user, before = visitor(acme, "operator"), head(acme)
    typed = {"name": "payments <b>", "partitions": "6", "step": step, "once": "x" * 20, "password": "of mine"}
    fresh = dict(user.client.cookies)
    if ended:
        user.client.cookies.clear()
    answer = in_a_browser(user, "POST", f"{PROD}/-new", data={"key": "0" * 64, **typed})
    assert answer.status_code == 403 and "Nothing was changed" in said(answer) and "of mine" not in answer.text
    assert ("Log in in another tab" in said(answer)) == ended
    user.client.cookies.update(fresh)
    if ended:
        # Any number of times, until the user is logged in.
        answer = in_a_browser(user, "POST", f"{PROD}/-new", data=hidden(answer))
    form = in_a_browser(user, "POST", f"{PROD}/-new", data=hidden(answer))
    assert form.status_code == 200
    assert {"name": "payments <b>", "partitions": "6"}.items() <= values(form).items()
    assert head(acme) == before


def test_a_form_without_steps_is_sent_again_from_its_page_only(acme: Console) -> None:
    user, before = visitor(acme, "operator"), head(acme)
    answer = in_a_browser(user, "POST", "/logout", data={"key": "0" * 64})
    assert answer.status_code == 403 and "Nothing was changed" in said(answer)
    assert "Back to the form" not in answer.text and head(acme) == before
    assert user.get("/account").status_code == 200


def test_an_old_login_page_asks_again(acme: Console) -> None:
    data = {"key": "0" * 64, "user": "ada", "password": "x", "next": "/clusters"}
    answer = http.post(f"{acme.url}/login", headers=PERSON, data=data)
    assert answer.status_code == 403 and "Try again here" in said(answer)
    assert 'value="/clusters"' in answer.text


@pytest.mark.nightly  # the same without a browser: test_a_form_of_another_session
def test_two_tabs_and_a_new_session_lose_nothing_in_chromium(acme: Console, open_page) -> None:
    page: Page = open_page(acme, f"{PROD}/-new", expect_errors=True)
    page.get_by_label("Name", exact=True).fill("payments")
    page.context.add_cookies([session_of(acme)])
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="This form belongs to another session")).to_be_visible()
    page.get_by_role("button", name="Back to the form with my input").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("payments")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Declare stream: preview")).to_be_visible()


def test_back_after_a_finished_form_shows_the_form(acme: Console, open_page) -> None:
    page: Page = open_page(acme, f"{PROD}/-new")
    page.get_by_label("Name", exact=True).fill("payments")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Declare stream").click()
    expect(page).to_have_url(f"{acme.url}{PROD}/payments")
    before = head(acme)
    page.go_back()
    expect(page.get_by_role("heading", name="Declare stream", exact=True)).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("")
    page.reload()
    expect(page.get_by_role("heading", name="Declare stream", exact=True)).to_be_visible()
    assert head(acme) == before
