"""People who log in by an OpenID provider, without a browser."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.browser.access.test_users_page import client_of
from tests.support.api import http
from tests.support.console.consoles import Console, serve_here
from tests.support.console.openid_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.support.console.visitors import said
from tests.support.database.postgres import Database


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
    """Log in from an address without failed logins."""
    client = client_of(console, next(ADDRESSES))
    return client, client.get(begin(client, place))


def me(client: httpx2.Client) -> Any:
    return client.get("/api/v1/me").json()


def refused(answer: httpx2.Response, *words: str, status: int = 403) -> None:
    """Check that nobody is logged in, and that the page gives the reason."""
    assert answer.status_code == status, said(answer)
    assert "treeline_session" not in answer.headers.get("set-cookie", "")
    for word in words:
        assert word.lower() in said(answer).lower()
    assert "Log in with" in said(answer)


def key_of(client: httpx2.Client) -> str:
    return client.get("/account").text.partition('name="key" value="')[2].partition('"')[0]
