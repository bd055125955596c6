"""A session of the console ends when it is idle; its cookie belongs to this host only."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from starlette.datastructures import Headers

from backend import web
from backend.cookies import cookie_of, is_over_tls
from backend.queries.access.login import SESSION_COOKIE, SESSION_LIFE, hash_of, sessions
from tests.support.api.rest import Rest
from tests.support.database.postgres import Database

IDLE = timedelta(minutes=60)


@pytest.fixture
def session(rest: Rest) -> str:
    """Return a session that was opened, and not used since."""
    web.add_pages(rest.client.app)  # type: ignore[attr-defined]
    link = rest("POST", "/login-links").json()["url"].partition("?")[2]
    rest.client.get(f"/login?{link}", follow_redirects=False)
    return str(rest.client.cookies[SESSION_COOKIE])


def _left(database: Database, session: str) -> timedelta:
    """Return how long it lasts from now, by the database's clock."""
    query = sa.select(sessions.c.expires_at - sa.func.now()).where(sessions.c.session_hash == hash_of(session))
    with database.engine.connect() as connection:
        found: timedelta = connection.execute(query).scalar_one()
    return found


def _age(database: Database, session: str, **columns: timedelta) -> None:
    values = {name: sa.func.now() + value for name, value in columns.items()}
    with database.engine.begin() as connection:
        found = sa.update(sessions).where(sessions.c.session_hash == hash_of(session))
        connection.execute(found.values(values))


def _asked(rest: Rest, session: str, **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    cookie = {"Cookie": f"{SESSION_COOKIE}={session}"}
    return rest.client.get("/api/v1/me", headers={**cookie, **sent}).status_code


def test_use_keeps_a_session_and_what_pages_ask_by_themselves_does_not(
    rest: Rest, database: Database, session: str
) -> None:
    assert _asked(rest, session) == 200
    assert IDLE - timedelta(minutes=5) < _left(database, session) <= IDLE
    _age(database, session, expires_at=timedelta(minutes=10))
    for headers in ({"HX_Request": "true"}, {"Accept": "text/event-stream"}):
        assert _asked(rest, session, **headers) == 200
        assert _left(database, session) <= timedelta(minutes=10)
    assert _asked(rest, session) == 200
    assert _left(database, session) > timedelta(minutes=30)


def test_a_session_that_is_never_used_ends_as_an_idle_one(rest: Rest, database: Database, session: str) -> None:
    assert _left(database, session) <= IDLE


def test_an_idle_session_is_over(rest: Rest, database: Database, session: str) -> None:
    _age(database, session, expires_at=timedelta(seconds=-1))
    assert _asked(rest, session) == 401


def test_use_does_not_keep_a_session_beyond_its_life(rest: Rest, database: Database, session: str) -> None:
    _age(database, session, opened_at=timedelta(minutes=30) - SESSION_LIFE)
    assert _asked(rest, session) == 200
    assert _left(database, session) <= timedelta(minutes=30)


_FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER full_disk BEFORE UPDATE ON sessions FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
"""


def test_while_a_use_cannot_be_written_down_its_session_still_reads(
    rest: Rest, database: Database, session: str
) -> None:
    with database.owner.begin() as connection:
        connection.execute(sa.text(_FULL))
    before = _left(database, session)
    assert _asked(rest, session) == 200
    assert _left(database, session) <= before


@pytest.mark.parametrize(
    ("cookies", "secure", "found"),
    [
        (b"treeline_session=a", False, "a"),
        (b"__Host-treeline_session=a", True, "a"),
        (b"treeline_session=of-a-neighbour", True, ""),
        (b"treeline_session=of-a-neighbour; __Host-treeline_session=a", True, "a"),
        (b"__Host-treeline_session=a; \x85__Host-treeline_session=of-a-neighbour", True, "a"),
        (b"\xa0__Host-treeline_session=of-a-neighbour", True, ""),
        (b"", True, ""),
    ],
)
def test_over_tls_only_a_cookie_of_this_host_counts(cookies: bytes, secure: bool, found: str) -> None:
    sent = Headers(raw=[(b"cookie", cookies)])
    assert cookie_of(sent, SESSION_COOKIE, secure=secure) == found


@pytest.mark.parametrize(
    ("scheme", "url", "over"),
    [
        ("http", None, False),
        ("https", None, True),
        ("http", "http://127.0.0.1:8000", False),
        ("http", "HTTPS://treeline.example", True),
    ],
)
def test_tls_is_known_by_the_request_or_the_settings(scheme: str, url: str | None, over: bool) -> None:
    assert is_over_tls(scheme, url) is over
