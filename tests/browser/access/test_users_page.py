"""Logging in, the Users page and one's own Account, in a real browser."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from backend.login_limits import ATTEMPTS
from tests.nightly import some_now
from tests.postgres.access.test_rest_users import everything_stored
from tests.support.api import http
from tests.support.api.rest_client import RestClient
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, hidden, said, values
from tests.support.database.postgres import Database

PASSWORD = "correct horse battery staple"


def new_user(
    console: Console, name: str, role: str = "tenant", password: str | None = PASSWORD, **more: Any
) -> None:
    console.rest.ok("POST", "/users", {"name": name, "role": role, **more})
    if password:
        console.rest.ok("PUT", f"/users/{name}/password", {"password": password})


def log_in(page: Page, console: Console, user: str, password: str = PASSWORD) -> None:
    page.goto(f"{console.url}/login")
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def pages_offered(page: Page) -> list[str]:
    return page.locator("nav[aria-label=Pages] a").all_text_contents()  # also of those below More


def test_an_admin_makes_a_user_who_then_logs_in_and_uses_its_token(console: Console, open_page, browser) -> None:
    console.rest.ok("POST", "/tenants", {"name": "acme"})
    page = open_page(console, "/users")
    expect(page.locator("#users")).to_have_count(0)
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("main")).to_contain_text("The user ada will be created")
    assert console.rest.ok("GET", "/users")["items"] == []
    page.get_by_role("button", name="Create user").click()
    expect(page.get_by_role("heading", name="ada")).to_be_visible()
    expect(page.locator("#role")).to_have_text("viewer")
    page.get_by_role("combobox", name="Tenant").fill("acme")
    page.get_by_role("combobox", name="Membership").select_option("owner")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("main")).to_contain_text("ada will be owner of acme")
    page.get_by_role("button", name="Tenants of ada").click()
    expect(page.locator("[data-tenant='acme']")).to_contain_text("owner")
    page.get_by_role("button", name="Set password").click()
    expect(page.locator("main")).to_contain_text("ada logs in with the password that you type here, the first one")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("status")).to_contain_text("ada has a new password")
    page.get_by_label("Name").fill("ci")
    page.get_by_label("Days").fill("30")
    page.get_by_role("button", name="Issue token").click()
    expect(page.locator("[data-field='Permissions']")).to_contain_text("role viewer; owner of acme")
    assert console.rest.ok("GET", "/users/ada/tokens")["items"] == []
    page.get_by_role("button", name="Issue token").click()
    secret = page.locator("#secret code").inner_text()
    me = RestClient(console.url, secret).ok("GET", "/me")
    assert me == {"name": "ada", "role": "viewer", "tenants": {"acme": "owner"}, "token": "ci"}
    page.goto(f"{console.url}/users/ada")
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke ci").click()
    expect(page.locator("main")).to_contain_text("Nothing has changed yet")
    assert RestClient(console.url, secret).ok("GET", "/me")["token"] == "ci"
    page.get_by_role("button", name="Revoke ci").click()
    expect(page.locator("#tokens")).to_have_count(0)
    assert RestClient(console.url, secret)("GET", "/me").status_code == 401
    page.goto(f"{console.url}/users")
    expect(page.locator("[data-user='ada']")).to_contain_text("viewer")

    own = browser.new_context().new_page()
    log_in(own, console, "ada")
    expect(own).to_have_url(f"{console.url}/")
    expect(own.locator(".who")).to_contain_text("ada")
    page.goto(f"{console.url}/users/ada")
    page.get_by_role("button", name="Disable").click()
    expect(page.locator("[data-field='State']")).to_have_class("changed")
    expect(page.locator("main")).to_contain_text("ada is logged out, and its tokens are not valid")
    page.get_by_role("button", name="Change ada").click()
    expect(page.locator("#role")).to_contain_text("disabled")
    assert own.goto(f"{console.url}/tree").status == 401
    own.context.close()


@some_now(
    "role, offered, first",
    [
        ("tenant", "Overview Tenants Schemas Groups Offsets Timeline Charts Trace", "/"),
        (
            "viewer",
            "Overview Tree Clusters Tenants Schemas Groups Offsets Switches Placements Timeline Charts Trace "
            "Zones Drills Webhooks Users",
            "/",
        ),
    ],
    now=(0,),
)
def test_pages_show_what_their_viewer_may_see_and_do(
    console: Console, open_page, role: str, offered: str, first: str
) -> None:
    console.rest.ok("POST", "/tenants", {"name": "acme"})
    new_user(console, "ada", role, tenants={"acme": "member"})
    page = open_page(console, expect_errors=True)
    page.get_by_role("button", name="Log out").click()
    log_in(page, console, "ada")
    expect(page).to_have_url(f"{console.url}{first}")
    assert " ".join(pages_offered(page)) == offered
    seen = 403 if role == "tenant" else 200
    for path in ("/tree", "/users", "/users/ada"):
        answer = page.goto(f"{console.url}{path}")
        assert answer is not None
        assert answer.status == seen
        expect(page.locator("main form")).to_have_count(0)
    assert page.request.get(f"{console.url}/tree/live", timeout=2000).status == 403 if role == "tenant" else True
    page.goto(f"{console.url}/account")
    expect(page.locator("#tenants")).to_have_text("member of acme")


@pytest.mark.nightly  # tests/postgres/access/test_rest_users.py does it without a browser
def test_a_user_issues_and_revokes_its_own_token_and_changes_its_password(console: Console, open_page) -> None:
    new_user(console, "ada")
    page = open_page(console, expect_errors=True)
    page.get_by_role("button", name="Log out").click()
    log_in(page, console, "ada")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Issue token").click()
    page.get_by_role("button", name="Issue token").click()
    secret = page.locator("#secret code").inner_text()
    assert RestClient(console.url, secret).ok("GET", "/me")["token"] == "laptop"
    page.get_by_role("button", name="Change password").click()
    expect(page.locator("main")).to_contain_text("All your sessions end: 1 session, including this one.")
    page.get_by_label("Current password").fill("not the present one")
    page.get_by_label("New password").fill("another horse battery")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("alert")).to_contain_text("not your current password")
    assert "another horse battery" not in page.content()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill("another horse battery")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, console, "ada")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user or password")
    log_in(page, console, "ada", "another horse battery")
    expect(page.get_by_role("heading", name="ada")).to_be_visible()
    page.get_by_role("button", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke laptop").click()
    expect(page.locator("#tokens")).to_have_count(0)
    assert RestClient(console.url, secret)("GET", "/me").status_code == 401


def test_a_double_click_issues_one_token_and_shows_it(console: Console, open_page) -> None:
    new_user(console, "ada")
    page = open_page(console, "/users/ada")
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Issue token").click()
    expect(page.get_by_role("button", name="Issue token")).to_be_visible()
    # A double click, as the browser may take it: the first one is on its way when the second comes.
    assert page.evaluate(
        """() => {
          const prevented = [], form = document.querySelector("form[action$='/tokens']");
          addEventListener("submit", (event) => prevented.push(event.defaultPrevented));
          const button = form.querySelector("button[value='confirm']");
          form.requestSubmit(button);
          form.requestSubmit(button);
          return prevented;
        }"""
    ) == [False, True]
    secret = page.locator("#secret code").inner_text()
    assert RestClient(console.url, secret).ok("GET", "/me")["token"] == "ci"
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_label("Name").fill("laptop")  # the page that came is another one
    page.get_by_role("button", name="Issue token").click()
    page.get_by_role("button", name="Issue token").click()
    expect(page.locator("[data-token]")).to_have_count(2)


def test_who_came_by_a_tokens_link_issues_no_tokens(console: Console, open_page) -> None:
    new_user(console, "ada", password="")
    secret = console.rest.ok("POST", "/users/ada/tokens", {"name": "ci"})["secret"]
    page = open_page(Console(console.url, secret), "/account", expect_errors=True)
    expect(page.get_by_text("Log in by password to issue tokens")).to_be_visible()
    expect(page.get_by_role("button", name="Issue token")).to_have_count(0)
    page.get_by_role("button", name="Revoke ci").click()
    page.get_by_role("button", name="Revoke ci").click()
    # It took away its own way in.
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.nightly  # the same form page; refusals themselves are in test_rest_users
def test_what_is_refused_is_said_on_the_page(console: Console, open_page) -> None:
    new_user(console, "ada")
    page = open_page(console, "/users", expect_errors=True)
    page.get_by_label("Name").fill("ada")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("user 'ada' already exists")
    expect(page.get_by_label("Name")).to_have_value("ada")
    page.goto(f"{console.url}/users/ada")
    page.get_by_role("combobox", name="Tenant").fill("nothing")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("no tenant 'nothing'")
    assert page.goto(f"{console.url}/users/nobody").status == 404


@pytest.mark.nightly  # the same form page: test_tenant_pages
def test_a_user_that_somebody_changed_meanwhile_is_not_written_over(console: Console, open_page) -> None:
    new_user(console, "ada", "viewer")
    page = open_page(console, "/users/ada", expect_errors=True)
    page.get_by_role("combobox", name="Role").select_option("operator")
    page.get_by_role("button", name="Change").click()
    expect(page.locator("[data-field='Role']")).to_contain_text("operator")
    console.rest.ok("PATCH", "/users/ada", {"role": "admin"})
    page.get_by_role("button", name="Change ada").click()
    expect(page.get_by_role("alert")).to_contain_text("somebody changed it since you opened this form")
    assert console.rest.ok("GET", "/users/ada")["role"] == "admin"
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Change ada").click()
    expect(page.locator("#role")).to_have_text("operator")


# --- what a browser cannot be made to do


def client_of(console: Console, address: str = "127.0.0.1") -> httpx2.Client:
    """A client that asks from this address."""
    transport = httpx2.HTTPTransport(local_address=address)
    return http.client(base_url=console.url, transport=transport)


def key_of(page: httpx2.Response) -> str:
    found = re.search('name="key" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


def try_password(
    client: httpx2.Client, user: str, password: str = PASSWORD, place: str = "", **headers: str
) -> httpx2.Response:
    data = {"key": key_of(client.get("/login")), "user": user, "password": password, "next": place}
    return client.post("/login", data=data, headers=headers)


def test_an_unknown_user_a_disabled_one_and_a_wrong_password_get_the_same_answer(console: Console) -> None:
    new_user(console, "ada")
    new_user(console, "gone")
    new_user(console, "none", password="")
    console.rest.ok("PATCH", "/users/gone", {"disabled": True})
    texts = set()
    with client_of(console) as client:
        for user, password in (
            ("ada", "wrong"),
            ("gone", PASSWORD),
            ("none", ""),
            ("nobody", "x"),
            ("a\x00", "x"),
        ):
            answer = try_password(client, user, password)
            assert answer.status_code == 403
            assert "treeline_session" not in answer.headers.get("set-cookie", "")
            texts.add(answer.text.replace(key_of(answer), "KEY"))
    assert len(texts) == 1


def test_guessing_a_password_is_stopped_by_user_and_by_address(console: Console) -> None:
    new_user(console, "ada")
    new_user(console, "bob")
    with client_of(console) as client, client_of(console, "127.0.0.2") as elsewhere:
        for _ in range(ATTEMPTS):
            assert try_password(client, "ada", "wrong").status_code == 403
        for stopped in (try_password(client, "ada"), try_password(client, "bob"), try_password(elsewhere, "ada")):
            assert stopped.status_code == 429
            assert int(stopped.headers["retry-after"]) > 0
        assert try_password(elsewhere, "bob").status_code == 303


def test_a_session_is_a_new_one_at_each_login(console: Console) -> None:
    new_user(console, "ada")
    with client_of(console) as client:
        assert try_password(client, "ada").status_code == 303
        first = client.cookies["treeline_session"]
        assert try_password(client, "ada").status_code == 303
        assert client.cookies["treeline_session"] != first
        client.cookies.set("treeline_session", first)
        assert (
            http.get(f"{console.url}/account", headers={"Cookie": f"treeline_session={first}"}).status_code == 401
        )


@pytest.mark.parametrize("path", ["/logout", "/account/password", "/users", "/users/ada/tokens"])
@pytest.mark.nightly  # test_every_page sends each form without its key, with another's, and from another site
def test_a_form_that_no_page_of_ours_sent_changes_nothing(console: Console, path: str) -> None:
    """The form has no key, the key of another session, or comes from another site."""
    new_user(console, "ada", "admin")
    with client_of(console) as client, client_of(console) as other:
        assert try_password(client, "ada").status_code == 303
        assert try_password(other, "ada").status_code == 303
        data = {"user": "eve", "role": "admin", "token": "x", "present": PASSWORD, "password": "another password"}
        key = key_of(client.get("/account"))
        spoilt = [("", {}), (key_of(other.get("/account")), {}), (key, {"Sec-Fetch-Site": "cross-site"})]
        head = console.rest.ok("GET", "/events/head")
        for sent, headers in spoilt:
            assert client.post(path, data={**data, "key": sent}, headers=headers).status_code == 403, headers
            assert console.rest.ok("GET", "/events/head") == head
            assert client.get("/account").status_code == 200


def test_nobody_is_logged_in_by_another_sites_form(console: Console) -> None:
    new_user(console, "ada")
    with client_of(console) as client:
        assert client.post("/login", data={"user": "ada", "password": PASSWORD}).status_code == 403
        assert try_password(client, "ada", **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert "treeline_session" not in client.cookies


def test_a_password_is_typed_below_what_it_does_and_stands_nowhere(console: Console, database: Database) -> None:
    new_user(console, "ada")
    admin = Visitor(console, "root", "admin")
    with client_of(console) as client:
        assert try_password(client, "ada").status_code == 303
        shown = admin.preview("/users/ada/password")
        assert "which replaces the present one. The user is logged out: 1 session." in said(shown)
        assert code(shown, "same-command") == "treeline user password ada"
        assert '{"password": "..."}' in code(shown, "same-curl")
        sent = {**hidden(shown), "step": "confirm"}
        refused = admin.client.post("/users/ada/password", data={**sent, "password": "too short"})
        assert (refused.status_code, "12 to 200 characters" in said(refused)) == (422, True)
        assert "too short" not in refused.text
        assert client.get("/account").status_code == 200
        again = {**hidden(refused), "step": "confirm", "password": "another horse battery"}
        for _ in range(2):  # sent twice
            done = admin.client.post("/users/ada/password", data=again)
            assert (done.status_code, "ada has a new password" in said(done)) == (200, True)
        assert client.get("/account").status_code == 401
        assert try_password(client, "ada", "another horse battery").status_code == 303
    kinds = [event["name"] for event in console.rest.ok("GET", "/events?limit=1000")["items"]]
    assert kinds.count("PasswordSet") == 2, "that of the setting-up, and this one"
    quick = hashlib.sha256(b'["/users/ada/password", [["password", "another horse battery"]]]').hexdigest()
    assert quick not in everything_stored(database)


@some_now("days", ["x", "-1", "0", "99999", "1.5"], now=(0, 2))
def test_days_that_are_none_are_refused_at_their_field(console: Console, days: str) -> None:
    new_user(console, "ada")
    refused = Visitor(console, "root", "admin").send("/users/ada/tokens", token="ci", days=days)
    assert refused.status_code == 422
    assert values(refused) == {"token": "ci", "days": days}, "what was typed is still there"
    assert 'id="wrong-' in refused.text or "days" in said(refused)
    assert console.rest.ok("GET", "/users/ada/tokens")["items"] == []


@some_now("role", ["tenant", "viewer", "operator"], now=(2,))
def test_forms_of_users_are_for_admins_only(console: Console, role: str) -> None:
    new_user(console, "ada", role)
    with client_of(console) as client:
        assert try_password(client, "ada").status_code == 303
        key = key_of(client.get("/account"))
        for path in ("/users", "/users/ada", "/users/ada/tenants", "/users/ada/password", "/users/ada/tokens"):
            assert client.post(path, data={"key": key, "role": "admin"}).status_code == 403
    assert console.rest.ok("GET", "/users/ada")["role"] == role
