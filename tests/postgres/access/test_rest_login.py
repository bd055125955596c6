"""One-time login links and sessions."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from backend import web
from backend.api.app import create_app
from backend.login_limits import ATTEMPTS
from backend.queries.access.login import login_links, sessions
from tests.support.api.rest import TREE, Rest, problem, rest_settings
from tests.support.database.postgres import Database


@pytest.fixture
def rest(rest: Rest) -> Rest:
    """Return the API with the console's pages."""
    web.add_pages(rest.client.app)  # type: ignore[arg-type]
    return rest


def new_link(rest: Rest) -> str:
    """Path and query of a fresh link."""
    answer = rest("POST", "/login-links")
    assert answer.status_code == 201
    parts = urlsplit(answer.json()["url"])
    assert parts.path == "/login"
    return f"{parts.path}?{parts.query}"


def visit(rest: Rest, path: str):
    return rest.client.get(path, follow_redirects=False)


def log_out(rest: Rest):
    """Log out as the button of a page does."""
    key = re.search('name="key" value="([0-9a-f]{64})"', visit(rest, "/account").text)
    assert key is not None
    return rest.client.post("/logout", data={"key": key[1]}, follow_redirects=False)


def test_a_link_opens_a_session_once(rest: Rest) -> None:
    link = new_link(rest)
    opened = visit(rest, link)
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert rest.client.get("/api/v1/clusters").status_code == 200
    rest.client.cookies.clear()
    again = visit(rest, link)
    assert again.status_code == 403
    assert again.headers["content-type"].startswith("text/html")
    assert "treeline up" in again.text
    assert "treeline_session" not in again.headers["set-cookie"]
    assert rest.client.get("/api/v1/clusters").status_code == 401


def test_two_who_come_with_one_link_at_once_do_not_both_get_in(rest: Rest) -> None:
    link = new_link(rest)
    with ThreadPoolExecutor(4) as threads:
        statuses = sorted(answer.status_code for answer in threads.map(lambda _: visit(rest, link), range(4)))
    assert statuses == [303, 403, 403, 403]


def test_a_link_tells_when_it_ends_and_then_no_longer_works(rest: Rest, database: Database) -> None:
    answer = rest("POST", "/login-links").json()
    life = datetime.fromisoformat(answer["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < life < timedelta(minutes=70)
    with database.engine.begin() as connection:
        connection.execute(sa.update(login_links).values(expires_at=sa.func.now()))
    parts = urlsplit(answer["url"])
    assert visit(rest, f"{parts.path}?{parts.query}").status_code == 403


def test_a_session_ends(rest: Rest, database: Database) -> None:
    visit(rest, new_link(rest))
    with database.engine.begin() as connection:
        connection.execute(sa.update(sessions).values(expires_at=sa.func.now()))
    assert rest.client.get("/api/v1/clusters").status_code == 401


def test_logging_out_ends_the_session_for_whoever_kept_the_cookie(rest: Rest) -> None:
    visit(rest, new_link(rest))
    kept = dict(rest.client.cookies)
    assert log_out(rest).status_code == 303
    rest.client.cookies.update(kept)
    assert rest.client.get("/api/v1/clusters").status_code == 401


def test_a_session_only_reads_through_the_api(rest: Rest) -> None:
    visit(rest, new_link(rest))
    problem(rest.client.post("/api/v1/tenants", json={"name": "acme"}), 401, "not-authenticated")
    problem(rest.client.put("/api/v1/trees/main", json=TREE), 401, "not-authenticated")


def test_neither_codes_nor_sessions_are_stored_or_in_events(rest: Rest, database: Database) -> None:
    link = new_link(rest)
    visit(rest, link)
    code, session = link.partition("code=")[2], rest.client.cookies["treeline_session"]
    with database.owner.connect() as connection:
        stored = str([connection.execute(sa.select(table)).all() for table in (login_links, sessions)])
    assert code not in stored
    assert session not in stored
    assert rest.head() == 0


def test_links_need_the_token(rest: Rest) -> None:
    problem(rest.client.post("/api/v1/login-links"), 401, "not-authenticated")


def test_without_a_code_the_page_says_how_to_get_one(rest: Rest) -> None:
    page = visit(rest, "/login")
    assert page.status_code == 200
    assert "treeline up" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("code", ["wrong", "%00", "%ED%A0%80", "<script>"])
def test_a_wrong_code_is_refused(rest: Rest, code: str) -> None:
    answer = visit(rest, f"/login?code={code}")
    assert answer.status_code == 403
    assert "<script>" not in answer.text


def test_guessing_is_stopped(rest: Rest) -> None:
    for n in range(ATTEMPTS):
        assert visit(rest, f"/login?code=guess-{n}").status_code == 403
    stopped = visit(rest, new_link(rest))
    assert stopped.status_code == 429
    assert int(stopped.headers["retry-after"]) > 0


def test_the_link_names_the_configured_address(database: Database) -> None:
    with TestClient(create_app(rest_settings(database.url, url="https://treeline.example"))) as client:
        assert (
            Rest(client)("POST", "/login-links").json()["url"].startswith("https://treeline.example/login?code=")
        )
