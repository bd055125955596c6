"""Logging in by an OpenID provider, one with real signatures: what is believed of it, and what is not."""

from __future__ import annotations

import html
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from backend.oidc import id_tokens
from backend.oidc import provider as asked_provider
from backend.web.forms import _key_of
from tests import http, openid_provider
from tests.database_fixture import Database
from tests.openid_provider import CLIENT_ID, CLIENT_SECRET, Claims, Provider, new_key, serving
from tests.pages.consoles import Console, serve_here
from tests.pages.test_users_page import PASSWORD, client_of, new_user, try_password
from tests.pages.visitors import said


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as running:
        yield running


@contextmanager
def console_with(database: Database, provider: Provider, folder: Path, **settings: Any) -> Iterator[Console]:
    secret = folder / "secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    known = {
        "oidc_issuer": provider.url,
        "oidc_name": "ACME <SSO>",
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": f"${{file:{secret}}}",
        "oidc_allowed_domains": ["*"],
    }
    with serve_here(database.url, **{**known, **settings}) as running:
        yield running


@pytest.fixture
def sso(database: Database, provider: Provider, tmp_path: Path) -> Iterator[Console]:
    """A control plane that everybody may enter whom the provider knows."""
    with console_with(database, provider, tmp_path) as running:
        yield running


def begin(client: httpx2.Client, place: str = "") -> str:
    """Where the browser comes back to, after somebody logged in at the provider."""
    away = client.get("/login/oidc", params={"next": place} if place else None)
    assert away.status_code == 303, said(away)
    back = http.get(away.headers["location"])
    assert back.status_code == 302, back.text
    location: str = back.headers["location"]
    return location


ADDRESSES = (f"127.0.{n // 250}.{n % 250 + 1}" for n in itertools.count(1))


def log_in(console: Console, place: str = "") -> tuple[httpx2.Client, httpx2.Response]:
    """From an address that nobody has failed from."""
    client = client_of(console, next(ADDRESSES))
    return client, client.get(begin(client, place))


def me(client: httpx2.Client) -> Any:
    return client.get("/api/v1/me").json()


def refused(answer: httpx2.Response, *words: str, status: int = 403) -> None:
    """Nobody is logged in, and the page says why."""
    assert answer.status_code == status, said(answer)
    assert "treeline_session" not in answer.headers.get("set-cookie", "")
    for word in words:
        assert word.lower() in said(answer).lower()
    assert "Log in with" in said(answer)


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


def claim(**changes: Any) -> Callable[[Claims], Claims]:
    return lambda claims: {k: v for k, v in {**claims, **changes}.items() if v is not None}


WRONG_CLAIMS = (
    (claim(nonce="of another login"), "nonce is wrong"),
    (claim(nonce=None), "nonce is wrong or missing"),
    (claim(aud="another"), "for somebody else"),
    (claim(aud=["another"]), "for somebody else"),
    (claim(aud=[CLIENT_ID, "another"]), "for somebody else"),
    (claim(azp="another"), "for somebody else"),
    (claim(iss="https://another.example"), "iss is wrong"),
    (claim(iss=None), "iss is wrong or missing"),
    (claim(exp=int(time.time()) - 120), "has expired"),
    (claim(exp=None), "exp is wrong or missing"),
    (claim(iat=int(time.time()) + 3600), "iat is wrong"),
    (claim(sub=None), "sub is wrong or missing"),
    (claim(sub=7), "sub is wrong"),
    (claim(sub=""), "sub"),
)
WRONG_SIGNATURES = (
    openid_provider.unsigned,
    openid_provider.signed_with_public_key,
    openid_provider.signed_by_another,
    openid_provider.tampered,
    lambda *_: "no token",
    lambda *_: None,
)


def test_a_token_that_says_the_wrong_thing_is_refused(sso: Console, provider: Provider) -> None:
    for wrong, words in WRONG_CLAIMS:
        provider.wrong = wrong
        refused(log_in(sso)[1], words)
    assert sso.rest.ok("GET", "/users")["items"] == []


def test_a_token_that_is_not_signed_by_the_provider_is_refused(
    sso: Console, provider: Provider, sign: Any
) -> None:
    provider.sign = sign
    refused(log_in(sso)[1], "ID token")
    assert sso.rest.ok("GET", "/users")["items"] == []


def test_a_token_for_several_says_who_asked_for_it(sso: Console, provider: Provider) -> None:
    provider.wrong = claim(aud=[CLIENT_ID, "another"], azp=CLIENT_ID)
    assert log_in(sso)[1].status_code == 303


def test_elliptic_keys_are_as_good(sso: Console, provider: Provider) -> None:
    provider.keys, provider.algorithm = [new_key("curve", "EC"), new_key("other")], "ES256"
    assert log_in(sso)[1].status_code == 303


def test_a_new_key_is_read_once_and_not_again_at_once(
    sso: Console, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(sso)[1].status_code == 303
    provider.keys = [new_key("second")]
    refused(log_in(sso)[1], "a key that it does not have")  # read a moment ago
    assert provider.asked.count("/keys") == 1
    monkeypatch.setattr(id_tokens, "RELOAD_SECONDS", 0.0)
    assert log_in(sso)[1].status_code == 303
    assert log_in(sso)[1].status_code == 303
    assert provider.asked.count("/keys") == 2
    # One that was taken away opens nothing any more.
    provider.sign = lambda provider, claims: provider.signed(claims, new_key("first"))
    refused(log_in(sso)[1], "a key that it does not have")


def test_what_comes_back_without_having_been_begun_here_is_refused(sso: Console) -> None:
    client, thief = (http.client(base_url=sso.url) for _ in range(2))
    back = begin(client)
    refused(thief.get(back), "not begun in this browser")
    begin(thief)
    refused(thief.get(back), "not begun in this browser")
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
    refused(client.get(back), "not begun in this browser")
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


@pytest.mark.parametrize(
    "description",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": "http://another.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_provider_that_describes_another_is_not_asked(
    sso: Console, provider: Provider, description: Claims
) -> None:
    provider.description = description
    refused(http.get(f"{sso.url}/login/oidc"))


def test_who_is_disabled_here_stays_out(sso: Console) -> None:
    client, _ = log_in(sso)
    sso.rest.ok("PATCH", "/users/ada", {"disabled": True})
    assert client.get("/account").status_code == 401
    refused(log_in(sso)[1], "ada is disabled")


def test_a_name_gives_nobody_a_user_that_is_here_already(sso: Console, provider: Provider) -> None:
    new_user(sso, "bob", "admin")
    for name in ("admin", "bob", "Bob@evil.example", "worker:reconcile", "", None, "<b>", 7):
        provider.person = {"sub": "s-2", "preferred_username": name}
        refused(log_in(sso)[1], "your subject is s-2")
    assert [user["name"] for user in sso.rest.ok("GET", "/users")["items"]] == ["bob"]


def test_an_admin_links_a_user_to_who_the_provider_knows(sso: Console, provider: Provider) -> None:
    new_user(sso, "bob", "viewer")
    provider.person = {"sub": "s-2", "preferred_username": "bob"}
    refused(log_in(sso)[1], "your subject is s-2")
    linked = sso.rest.ok("PUT", "/users/bob/identity", {"subject": "s-2"})
    assert linked == {"issuer": provider.url, "subject": "s-2"}
    client, _ = log_in(sso)
    assert me(client)["name"] == "bob"
    assert sso.rest("PUT", "/users/ada/identity", {"subject": "s-3"}).status_code == 404
    new_user(sso, "eve")
    assert sso.rest("PUT", "/users/eve/identity", {"subject": "s-2"}).status_code == 409
    assert sso.rest("DELETE", "/users/bob/identity").status_code == 204
    assert client.get("/account").status_code == 401
    refused(log_in(sso)[1], "not linked to you")


def test_groups_rule_what_they_are_named_for_and_nothing_else(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    grants = {"sre": ["operator"], "staff": ["viewer", "acme/member"], "orders": ["acme/owner", "nobody/owner"]}
    with console_with(database, provider, tmp_path, oidc_grants=grants) as console:
        for tenant in ("acme", "globex"):
            console.rest.ok("POST", "/tenants", {"name": tenant})

        def seen(*groups: str) -> tuple[str, Claims]:
            provider.person["groups"] = list(groups)
            found = me(log_in(console)[0])
            return found["role"], found["tenants"]

        assert seen("staff") == ("viewer", {"acme": "member"})
        console.rest.ok("PATCH", "/users/ada", {"role": "admin", "tenants": {"globex": "owner"}})
        assert seen("staff", "orders", "sre") == ("operator", {"acme": "owner", "globex": "owner"})
        assert seen() == ("tenant", {"globex": "owner"})
        head = console.rest.ok("GET", "/events/head")
        assert seen() == ("tenant", {"globex": "owner"})
        assert console.rest.ok("GET", "/events/head") == head
        provider.person = {**provider.person, "groups": None, "_claim_names": {"groups": "src1"}}
        refused(log_in(console)[1], "does not tell your groups")


PEOPLE = (
    ({"email": "ada@acme.example", "email_verified": True}, True),
    ({"email": "ada@ACME.example", "email_verified": True}, True),
    ({"email": "ada@acme.example", "email_verified": False}, False),
    ({"email": "ada@acme.example"}, False),
    ({"email": "ada@acme.example.evil.example", "email_verified": True}, False),
    ({"groups": ["staff"]}, True),
    ({"groups": "staff"}, True),
    ({"groups": ["others"]}, False),
    ({}, False),
)


def test_only_domains_and_groups_that_are_allowed_get_in(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    allowed = {"oidc_allowed_domains": ["acme.example"], "oidc_allowed_groups": ["staff"]}
    known = provider.person
    with console_with(database, provider, tmp_path, **allowed) as console:
        for person, enters in PEOPLE:
            provider.person = {**known, **person}
            answer = log_in(console)[1]
            if enters:
                assert answer.status_code == 303, person
            else:
                refused(answer, "let you in")


def test_without_domains_and_groups_only_who_is_linked_gets_in(
    database: Database, provider: Provider, tmp_path: Path
) -> None:
    with console_with(database, provider, tmp_path, oidc_allowed_domains=[]) as console:
        refused(log_in(console)[1], "no user here is linked to you")
        new_user(console, "bob")
        console.rest.ok("PUT", "/users/bob/identity", {"subject": "s-1"})
        assert me(log_in(console)[0])["name"] == "bob"


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


def key_of(client: httpx2.Client) -> str:
    return client.get("/account").text.partition('name="key" value="')[2].partition('"')[0]


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
        refused(client.post("/login", data=sent), "Nobody logs in by password")
        assert client.get(console.login_link()).status_code == 303
        assert log_in(console)[1].status_code == 303


def test_who_fails_too_often_is_stopped(sso: Console, provider: Provider) -> None:
    client = http.client(base_url=sso.url)
    for _ in range(10):
        refused(client.get("/login/oidc/callback?code=x&state=y"))
    assert client.get("/login/oidc/callback?code=x&state=y").status_code == 429
    assert client.get("/login/oidc").status_code == 429


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
