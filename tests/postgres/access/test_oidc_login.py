"""Logging in by an OpenID provider: to it and back, what may go wrong on the way, and where it leads."""

from __future__ import annotations

import html
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from backend.oidc import provider as asked_provider
from backend.oidc.errors import ProviderAway
from backend.oidc.login_attempt import LoginAttempt
from backend.settings import Settings
from backend.web.frame.forms import _key_of
from tests.browser.access.test_users_page import PASSWORD, new_user, try_password
from tests.nightly import some_now
from tests.support.api import http
from tests.support.console.consoles import Console
from tests.support.console.oidc import begin, console_with, key_of, log_in, me, refused
from tests.support.console.openid_provider import Claims, Provider, serving
from tests.support.database.postgres import Database


def test_the_first_login_makes_a_user_who_is_the_same_at_the_next(sso: Console, provider: Provider) -> None:
    page = http.get(f"{sso.url}/login")
    assert "Log in with ACME <SSO>" in html.unescape(page.text)
    assert "<SSO>" not in page.text
    client, answer = log_in(sso)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert me(client) == {"name": "ada", "role": "tenant", "tenants": {}, "token": None}
    # Names there may be given to others; the subject is for good.
    provider.person["preferred_username"] = "countess"
    again, _ = log_in(sso)
    assert me(again)["name"] == "ada"
    assert again.cookies["treeline_session"] != client.cookies["treeline_session"]
    created = sso.rest.ok("GET", "/events?stream=user-ada")["items"]
    assert [e["name"] for e in created] == ["UserCreated", "IdentityLinked"]
    assert {e["metadata"]["actor"] for e in created} == {"provider:oidc"}


def test_a_session_that_was_there_ends_with_the_login(sso: Console) -> None:
    client = http.client(base_url=sso.url)
    client.get(sso.login_link())
    before = client.cookies["treeline_session"]
    assert client.get(begin(client)).status_code == 303
    old = http.get(f"{sso.url}/account", headers={"Cookie": f"treeline_session={before}"})
    assert old.status_code == 401


def test_what_comes_back_without_having_been_begun_here_is_refused(sso: Console) -> None:
    client, thief = (http.client(base_url=sso.url) for _ in range(2))
    back = begin(client)
    refused(thief.get(back), "not started in this browser")
    begin(thief)
    refused(thief.get(back), "not started in this browser")
    parts = urlsplit(back)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    for changed in (
        {"state": "x"},
        {"state": ""},
        {"state": "ä"},
        {"iss": "https://another.example"},
        {"code": ""},
    ):
        begin(client)
        refused(client.get(f"{parts.path}?{urlencode({**query, **changed})}"))


def test_a_code_is_good_for_one_time_and_for_who_began(sso: Console) -> None:
    client = http.client(base_url=sso.url)
    back = begin(client)
    cookie = dict(client.cookies)
    assert client.get(back).status_code == 303
    assert "treeline_oidc" not in client.cookies
    refused(client.get(back), "not started in this browser")
    replayed = http.client(base_url=sso.url, cookies=cookie)
    refused(replayed.get(back), "it answered invalid_grant")
    # A code of one login in another: without the verifier it was begun with.
    other = http.client(base_url=sso.url)
    code = parse_qs(urlsplit(begin(client)).query)["code"][0]
    own = parse_qs(urlsplit(begin(other)).query)["state"][0]
    refused(other.get("/login/oidc/callback", params={"code": code, "state": own}), "invalid_grant")


def test_what_the_provider_refuses_is_said_and_nothing_else_of_it(sso: Console) -> None:
    client = http.client(base_url=sso.url)
    for error, told in (("access_denied", "it answered access_denied"), ("<script>x</script>", "without a code")):
        state = parse_qs(urlsplit(begin(client)).query)["state"][0]
        answer = client.get("/login/oidc/callback", params={"error": error, "state": state})
        refused(answer, told)
        assert "<script>x" not in answer.text


def test_a_provider_that_is_down_is_said_and_passwords_still_work(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider()
    with serving(provider):
        port = urlsplit(provider.url).port
        assert port is not None
    with console_with(database, provider, tmp_path) as console:
        new_user(console, "bob")
        client = http.client(base_url=console.url)
        refused(client.get("/login/oidc"), "It does not answer", status=503)
        refused(client.get("/login/oidc"), "a moment ago", status=503)
        assert try_password(client, "bob").status_code == 303
        monkeypatch.setattr(asked_provider, "AWAY_SECONDS", 0.0)
        with serving(provider, port):
            back = begin(client)
        refused(client.get(back), "It does not answer", status=503)
        with serving(provider, port):
            assert log_in(console)[1].status_code == 303


def test_a_slow_provider_takes_no_longer_than_it_may(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    with console_with(database, provider, tmp_path, oidc_timeout_seconds=0.2) as console:
        client = http.client(base_url=console.url)
        back = begin(client)
        provider.slow_seconds = 1.0
        refused(client.get(back), "took longer than 0.2 s", status=503)
        provider.slow_seconds = 0.0
        back = begin(client)
        provider.byte_seconds = 0.01
        refused(client.get(back), "took longer than 0.2 s", status=503)


def test_four_logins_wait_for_a_provider_at_a_time() -> None:
    asked = asked_provider.provider_of(Settings(oidc_issuer="https://provider.example", oidc_client_id="treeline"))
    assert asked is not None
    with ExitStack() as logins:
        for _ in range(4):
            logins.enter_context(asked._slot())
        with pytest.raises(ProviderAway, match="Too many logins"):
            asked.authorization_url(LoginAttempt.new(), "https://treeline.example/login/oidc/callback")
    with asked._slot():
        pass  # one of them has ended


@some_now(
    "description",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": "http://another.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    now=(0, 3),
)
def test_a_provider_that_describes_another_is_not_asked(
    sso: Console, provider: Provider, description: Claims
) -> None:
    provider.description = description
    refused(http.get(f"{sso.url}/login/oidc"))


PLACES = (
    ("/account", "/account"),
    ("/timeline?actor=ada&name=", "/timeline?actor=ada&name="),
    ("//evil.example", "/"),
    ("/\\evil.example", "/"),
    ("\\/evil.example", "/"),
    ("https://evil.example/", "/"),
    ("/a\nb", "/"),
    ("/\t/evil.example", "/"),
    ("javascript:alert(1)", "/"),
    ("/login/oidc?next=/", "/"),
    ("/" + "a" * 2000, "/"),
)


def test_a_login_leads_to_a_page_of_this_console(sso: Console) -> None:
    new_user(sso, "bob")
    client = http.client(base_url=sso.url)
    for place, leads in PLACES:
        assert log_in(sso, place)[1].headers["location"] == leads, place
        assert try_password(client, "bob", place=place).headers["location"] == leads, place


def test_a_page_that_asks_to_log_in_is_where_it_leads(sso: Console) -> None:
    page = http.get(f"{sso.url}/account?x=1")
    assert page.status_code == 401
    assert "/login/oidc?next=%2Faccount%3Fx%3D1" in page.text


def test_logging_out_ends_the_session_here_and_leads_to_its_end_there(sso: Console, provider: Provider) -> None:
    client, _ = log_in(sso)
    kept = dict(client.cookies)
    page = client.post("/logout", data={"key": key_of(client)})
    assert page.status_code == 200
    address = html.unescape(page.text.partition('content="0; url=')[2].partition('"')[0])
    assert address.startswith(f"{provider.url}/logout?")
    assert parse_qs(urlsplit(address).query)["post_logout_redirect_uri"] == [f"{sso.url}/login"]
    assert http.get(f"{sso.url}/account", cookies=kept).status_code == 401
    # Who came by password has no session there.
    new_user(sso, "bob")
    assert try_password(client, "bob").status_code == 303
    assert client.post("/logout", data={"key": key_of(client)}).headers["location"] == "/login"


def test_without_passwords_only_the_provider_and_links_let_in(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    with console_with(database, provider, tmp_path, password_login=False) as console:
        new_user(console, "bob")
        client = http.client(base_url=console.url)
        page = client.get("/login")
        assert 'name="password"' not in page.text
        key = _key_of(client.cookies["treeline_login"])
        sent = {"key": key, "user": "bob", "password": PASSWORD}
        refused(client.post("/login", data=sent), "Login by password is disabled")
        assert client.get(console.login_link()).status_code == 303
        assert log_in(console)[1].status_code == 303


def test_who_fails_too_often_is_stopped(sso: Console, provider: Provider) -> None:
    new_user(sso, "bob")
    client = http.client(base_url=sso.url)
    for _ in range(10):
        state = parse_qs(urlsplit(begin(client)).query)["state"][0]
        refused(client.get("/login/oidc/callback", params={"error": "access_denied", "state": state}))
    assert client.get("/login/oidc").status_code == 429
    kept = sso.rest.ok("GET", "/audit?kind=LoginRefused")["items"]
    assert {(item["means"], item["reason"]) for item in kept} == {("provider", "it answered access_denied")}
    assert len(kept) == 10
    # The other way in is open.
    assert try_password(client, "bob").status_code == 303


def test_what_another_site_leads_to_is_nobodys_failure(sso: Console) -> None:
    """Pictures of any page can ask for the way back: they lock nobody out, fill no list, and end no login."""
    new_user(sso, "bob")
    client, own = http.client(base_url=sso.url), http.client(base_url=sso.url)
    back = begin(own)
    for _ in range(11):
        refused(client.get("/login/oidc/callback?code=x&state=y"), "not started in this browser")
        refused(own.get("/login/oidc/callback?code=x&state=y"), "not started in this browser")
    assert sso.rest.ok("GET", "/audit?kind=LoginRefused")["items"] == []
    assert own.get(back).status_code == 303
    assert try_password(client, "bob").status_code == 303


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": "http://provider.example"},
        {"oidc_issuer": "ftp://127.0.0.1"},
        {"oidc_client_id": None},
        {"oidc_client_secret": "the secret itself"},
        {"oidc_scopes": "profile"},
        {"oidc_grants": {"staff": ["king"]}},
        {"oidc_grants": {"staff": ["acme/king"]}},
    ],
)
def test_settings_that_are_wrong_are_told_when_it_starts(
    database: Database, tmp_path: Path, settings: Claims
) -> None:
    with (
        pytest.raises(Exception, match=r"TREELINE_OIDC|group .* gives") as told,
        console_with(database, Provider(url="https://provider.example"), tmp_path, **settings),
    ):
        raise AssertionError("it started")
    assert "the secret itself" not in str(told.value)
