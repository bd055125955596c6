"""The configuration of the how-to for a reverse proxy with TLS."""

from __future__ import annotations

from tests.project.docs.pages import DOCS
from tests.support.api import http
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import Database


def test_the_scheme_that_a_proxy_tells_makes_cookies_secure(database: Database) -> None:
    page = (DOCS / "howto" / "reverse-proxy.md").read_text()
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in page
    assert """TREELINE_TRUSTED_PROXIES='["127.0.0.1"]'""" in page
    https = {"X-Forwarded-Proto": "https"}
    for trusted, told, is_secure in ((["127.0.0.1"], {}, False), (["127.0.0.1"], https, True), ([], https, False)):
        with serve_here(database.url, trusted_proxies=trusted) as console:
            answer = http.get(console.login_link(), headers=told)
            assert answer.status_code == 303
            assert ("secure" in answer.headers["Set-Cookie"].lower()) is is_secure
            assert answer.headers["Set-Cookie"].startswith("__Host-treeline_session=") is is_secure


def test_links_for_logging_in_begin_with_the_address_of_the_settings(database: Database) -> None:
    with serve_here(database.url, url="https://treeline.example") as console:
        assert console.rest.ok("POST", "/login-links")["url"].startswith("https://treeline.example/login")
