"""Sessions: their cookies, their list on the Account page, from where they come, and what is kept of logins."""

from __future__ import annotations

import re
from itertools import islice

import httpx2
import pytest

from backend import login_limits
from backend.login_limits import ATTEMPTS
from backend.settings import PROJECT_ROOT
from tests.browser.access.test_users_page import client_of, new_user, try_password
from tests.nightly import some_now
from tests.support.api import http
from tests.support.console.consoles import Console, serve_here
from tests.support.console.oidc import key_of
from tests.support.console.visitors import Visitor, hidden, rows, said
from tests.support.database.postgres import Database


def logged_in(console: Console, agent: str = "a browser") -> httpx2.Client:
    client = http.client(base_url=console.url, headers={"User-Agent": agent})
    assert try_password(client, "ada").status_code == 303
    return client


def logins(console: Console) -> list[tuple[str, str | None, str, str | None]]:
    found = console.rest.ok("GET", "/audit?kind=Logins")["items"]
    return [(item["kind"], item["actor"], item["means"], item["reason"]) for item in reversed(found)]


def test_what_follows_the_tree_ends_with_its_token_as_with_its_session(console: Console) -> None:
    ada = Visitor(console, "ada", "viewer")
    program = http.client(base_url=console.url, headers={"Authorization": f"Bearer {ada.token}"}, timeout=30)
    for client in (ada.client, program):  # whoever was disabled has no session any more
        console.rest.ok("PATCH", "/users/ada", {"disabled": False})
        with client.stream("GET", "/tree/live") as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": open"
            console.rest.ok("PATCH", "/users/ada", {"disabled": True})
            # A line is a part of a block, or a second's beat; a stream lasts ten minutes by itself.
            assert len(list(islice(lines, 3000))) < 3000
        assert client.get("/tree/live").status_code == 401


def test_a_session_is_ended_from_another_one(console: Console) -> None:
    new_user(console, "ada")
    here, there = logged_in(console, "here"), logged_in(console, "over there")
    listed = rows(here.get("/account"), "data-session")
    assert len(listed) == 2
    [name] = [name for name, text in listed.items() if "over there" in text]
    assert "password 127.0.0.1" in listed[name]
    [own] = set(listed) - {name}
    assert "this one" in listed[own]
    stranger = Visitor(console, "eve")
    assert stranger.send(f"/account/sessions/{name}/end").status_code == 404
    assert there.get("/account").status_code == 200
    way = f"/account/sessions/{name}/end"
    preview = here.post(way, data={"key": key_of(here)})
    assert "The session's browser is logged out" in said(preview) and "over there" in said(preview)
    assert there.get("/account").status_code == 200
    assert here.post(way, data={**hidden(preview), "step": "confirm"}).status_code == 303
    assert there.get("/account").status_code == 401
    assert set(rows(here.get("/account"), "data-session")) == {own}
    for sent in ({"key": key_of(here)}, {**hidden(preview), "step": "confirm"}):
        again = here.post(way, data=sent)
        assert (again.status_code, "no such session" in said(again)) == (404, True)
    assert logins(console)[-1] == ("SessionEnded", "ada", "password", None)


def test_logins_are_kept_and_what_was_typed_is_not(console: Console, database: Database) -> None:
    new_user(console, "ada")
    client = http.client(base_url=console.url)
    try_password(client, "my own password", "x")
    try_password(client, "ada", "wrong")
    try_password(client, "ada")
    client.post("/logout", data={"key": key_of(client)})
    client.get(console.login_link())
    client.get("/login?code=used")
    wrong = "wrong user or password"
    assert logins(console) == [
        ("LoginRefused", None, "password", wrong),
        ("LoginRefused", "ada", "password", wrong),
        ("LoggedIn", "ada", "password", None),
        ("LoggedOut", "ada", "password", None),
        ("LoggedIn", "admin", "link", None),
        ("LoginRefused", None, "link", "the link is unknown, used or expired"),
    ]
    assert "my own password" not in console.rest("GET", "/audit/export").text


def test_refused_logins_fill_no_database_and_hide_no_others(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_limits, "KEPT_OF_EACH", 3)
    monkeypatch.setattr(login_limits, "KEPT_OF_ADDRESSES", 4)
    new_user(console, "ada")
    there = client_of(console)
    for n in range(ATTEMPTS):
        assert there.get(f"/login?code=guess-{n}").status_code == 403
    assert [reason for *_, reason in logins(console)][3:] == ["7 more were not kept"]
    # From another address, and for a user that there is, there is room.
    client_of(console, "127.0.0.2").get("/login?code=guess")
    assert len(logins(console)) == 5
    elsewhere = client_of(console, "127.0.0.3")
    for _ in range(4):
        try_password(elsewhere, "ada", "wrong")
    kept = logins(console)
    assert len(kept) == 8
    assert [user for _, user, _, _ in kept].count("ada") == 3
    assert [reason for *_, reason in kept if reason and "not kept" in reason] == ["8 more were not kept"]


def cookies(answer: httpx2.Response) -> dict[str, str]:
    return {cookie.partition("=")[0]: cookie for cookie in answer.headers.get_list("set-cookie")}


@some_now(
    "settings, headers, secure",
    [
        ({}, {}, False),
        ({}, {"X-Forwarded-Proto": "https"}, False),
        ({"trusted_proxies": ["127.0.0.0/8"]}, {"X-Forwarded-Proto": "https"}, True),
        ({"url": "https://treeline.example"}, {}, True),
        ({"url": "HTTPS://treeline.example"}, {}, True),
    ],
    now=(0, 2, 3),
)
def test_cookies_are_for_this_site_only_and_for_tls_where_there_is_any(
    database: Database, settings: dict, headers: dict[str, str], secure: bool
) -> None:
    with serve_here(database.url, **settings) as console:
        link = console.rest.ok("POST", "/login-links")["url"].partition("code=")[2]
        page = http.get(f"{console.url}/login", headers=headers)
        answer = http.get(f"{console.url}/login?code={link}", headers=headers)
        prefix = "__Host-" if secure else ""
        made = [cookies(page)[f"{prefix}treeline_login"], cookies(answer)[f"{prefix}treeline_session"]]
        for cookie, site in zip(made, ("strict", "lax"), strict=True):
            assert "HttpOnly" in cookie
            assert f"SameSite={site}" in cookie
            assert "Domain" not in cookie
            assert "Path=/;" in cookie
            assert ("Secure" in cookie) is secure


def test_nobody_names_another_address_than_its_own(console: Console) -> None:
    """A guess must not be able to claim an address of its own."""
    client = client_of(console)
    for n in range(ATTEMPTS):
        answer = client.get("/login?code=x", headers={"X-Forwarded-For": f"10.0.0.{n}"})
        assert answer.status_code == 403
    assert client.get("/login?code=x", headers={"X-Forwarded-For": "10.0.1.1"}).status_code == 429
    assert client_of(console, "127.0.0.2").get("/login?code=x").status_code == 403


@pytest.mark.parametrize("place", ["docker-compose.yml", "Dockerfile", "backend/estate/plan.py"])
def test_every_server_leaves_proxies_to_the_settings(place: str) -> None:
    """Uvicorn's default trusts every client on this machine."""
    commands = (PROJECT_ROOT / place).read_text().split("backend.asgi:app")[1:]
    assert commands
    for command in commands:
        assert "--no-proxy-headers" in command[:200], place


def test_a_trusted_proxy_says_who_comes(database: Database) -> None:
    with serve_here(database.url, trusted_proxies=["127.0.0.1"]) as console:
        proxy, stranger = client_of(console), client_of(console, "127.0.0.2")
        for _ in range(ATTEMPTS):
            assert proxy.get("/login?code=x", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 403
        assert proxy.get("/login?code=x", headers={"X-Forwarded-For": "10.0.0.1"}).status_code == 429
        assert proxy.get("/login?code=x", headers={"X-Forwarded-For": "10.0.0.2"}).status_code == 403
        # Who adds to what the proxy says does not become another one by it.
        said_before = {"X-Forwarded-For": "10.9.9.9, 10.0.0.1"}
        assert proxy.get("/login?code=x", headers=said_before).status_code == 429
        for _ in range(2):
            stranger.get("/login?code=x", headers={"X-Forwarded-For": "10.0.0.3"})
        kept = console.rest.ok("GET", "/audit?kind=Logins")["items"]
        assert {item["address"] for item in kept} == {"10.0.0.1", "10.0.0.2", "127.0.0.2"}


def test_the_audit_page_shows_it_to_who_may_read_the_estate(console: Console) -> None:
    new_user(console, "ada", "viewer")
    client, admin = logged_in(console), http.client(base_url=console.url)
    admin.get(console.login_link())
    console.rest.ok("POST", "/tenants", {"name": "acme"})
    try_password(http.client(base_url=console.url), "ada", "wrong")
    seen = admin.get("/audit")
    text = said(seen)
    for part in (
        "Logged in",
        "Login refused: wrong user or password",
        "Tenant acme created",
        "127.0.0.1",
    ):
        assert part in text
    assert "127.0.0.1" not in said(client.get("/audit"))
    assert rows(admin.get("/audit?kind=LoginRefused"), "id").keys() == {"login-3"}
    assert "No matching entries" in said(admin.get("/audit?actor=nobody"))
    assert admin.get("/audit?since=yesterday").status_code == 422
    only = admin.get("/audit?tenant=acme&since=2020-01-01&until=2999-01-01T00:00:00%2B01:00")
    assert "TenantCreated" in said(only)
    assert "UserCreated" not in said(only).partition("Filter")[2]
    export = re.search(r'href="(/api/v1/audit/export\?[^"]*form=csv)"', only.text)
    assert export is not None
    table = admin.get(export[1].replace("&amp;", "&"))
    assert table.text.count("TenantCreated") == 1
    assert client.get("/users").text.partition("<main")[2].count('href="/audit"') == 1
    assert Visitor(console, "eve").get("/audit").status_code == 403


@pytest.mark.nightly  # pages of a list: test_rest_general
def test_the_audit_page_leads_to_what_is_earlier(console: Console) -> None:
    admin = http.client(base_url=console.url)
    admin.get(console.login_link())
    for n in range(105):
        console.rest.ok("POST", "/tenants", {"name": f"t{n}"})
    first = admin.get("/audit?kind=TenantCreated")
    earlier = re.search(r'href="(/audit\?[^"]*before=[^"]*)"', first.text)
    assert earlier is not None
    second = admin.get(earlier[1].replace("&amp;", "&"))
    found = [*rows(first, "id"), *rows(second, "id")]
    assert len(found) == len(set(found)) == 105
    assert "Newest" in said(second)
