"""Users, their tokens and passwords, members of tenants, and how soon what is taken away is gone."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from backend.domain.access.access import Provenance
from backend.domain.access.user import MOST_TOKENS
from backend.eventlog.tables import idempotency_keys
from backend.projections.users import api_tokens
from backend.queries.access.login import SESSION_LIFE, login_links, sessions, use_link
from backend.queries.access.secrets import password_hashes, token_hashes
from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.callers import As, new_token, new_user
from tests.support.api.rest import Rest, problem, served
from tests.support.database.postgres import Database

PROVENANCE = Provenance("", "127.0.0.1", "a browser")
PASSWORD = "correct horse battery staple"


def everything_stored(database: Database) -> str:
    """Return all rows of all tables, as text."""
    with database.owner.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        return str([connection.execute(sa.text(f'SELECT * FROM "{name}"')).all() for name in names])


def test_a_user_is_made_read_and_changed_under_its_etag(rest: Rest) -> None:
    rest("POST", "/tenants", {"name": "acme"})
    made = rest("POST", "/users", {"name": "ada", "role": "viewer", "tenants": {"acme": "owner"}})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/api/v1/users/ada"
    body = {
        "name": "ada",
        "role": "viewer",
        "disabled": False,
        "has_password": False,
        "tenants": {"acme": "owner"},
    }
    assert made.json() == body
    read = rest("GET", "/users/ada")
    assert (read.json(), read.headers["etag"]) == (body, made.headers["etag"])
    changed = rest("PATCH", "/users/ada", {"role": "operator", "tenants": {}}, If_Match=read.headers["etag"])
    assert changed.json() == body | {"role": "operator", "tenants": {}}
    stale = rest("PATCH", "/users/ada", {"role": "admin"}, If_Match=read.headers["etag"])
    problem(stale, 412, "stale-version")
    assert rest("GET", "/users?at=3").json()["items"] == [body]
    assert rest("GET", "/users").json()["items"] == [changed.json()]
    problem(rest("POST", "/users", {"name": "ada"}), 409, "already-exists")
    problem(rest("GET", "/users/bob"), 404, "not-found")
    problem(rest("PATCH", "/users/bob", {"role": "admin"}), 404, "not-found")


def test_a_dry_run_makes_nobody_and_shows_no_token(rest: Rest) -> None:
    assert rest("POST", "/users?dry_run=true", {"name": "ada"}).status_code == 201
    assert rest.head() == 0
    rest("POST", "/users", {"name": "ada"})
    assert rest("POST", "/users/ada/tokens?dry_run=true", {"name": "ci"}).json()["secret"] is None
    assert rest("PUT", "/users/ada/password?dry_run=true", {"password": PASSWORD}).status_code == 204
    assert rest("GET", "/users/ada/tokens").json()["items"] == []
    assert rest.head() == 1


def test_a_token_is_shown_once_and_stands_nowhere(rest: Rest, database: Database) -> None:
    ada = new_user(rest, "ada", "viewer")
    assert ada("GET", "/me").json() == {"name": "ada", "role": "viewer", "tenants": {}, "token": "ci"}
    [listed] = rest("GET", "/users/ada/tokens").json()["items"]
    assert set(listed) == {"name", "issued_at", "expires_at"}
    rest("PUT", "/users/ada/password", {"password": PASSWORD})
    stored = everything_stored(database)
    assert "ada" in stored
    assert ada.token not in stored
    assert PASSWORD not in stored


def test_a_repeat_of_an_issue_shows_no_token_and_makes_no_other(rest: Rest, database: Database) -> None:
    rest("POST", "/users", {"name": "ada"})
    first, again = (rest("POST", "/users/ada/tokens", {"name": "ci"}, Idempotency_Key="k") for _ in range(2))
    assert first.json()["secret"].startswith("treeline_")
    assert again.json() == first.json() | {"secret": None}
    assert again.status_code == first.status_code == 201
    with database.engine.connect() as connection:
        kept = str(connection.execute(sa.select(idempotency_keys)).all())
    assert first.json()["secret"] not in kept
    assert As(rest.client, first.json()["secret"])("GET", "/me").status_code == 200


def test_a_password_takes_no_idempotency_key(rest: Rest, database: Database) -> None:
    rest("POST", "/users", {"name": "ada"})
    answer = rest("PUT", "/users/ada/password", {"password": PASSWORD}, Idempotency_Key="k")
    problem(answer, 422, "value-invalid")
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(idempotency_keys)).all() == []


def test_a_refused_password_is_not_told_back(rest: Rest) -> None:
    rest("POST", "/users", {"name": "ada"})
    for refused in ("aaaabbbbaaaabbbb", "too short", ["my secret words"]):
        answer = rest("PUT", "/users/ada/password", {"password": refused})
        assert answer.status_code == 422
        assert str(refused).strip("[]'") not in answer.text


@pytest.mark.parametrize("ending", ["revoked", "disabled", "expired", "its hash lost"])
def test_what_opened_by_a_token_is_closed_at_the_next_request(rest: Rest, database: Database, ending: str) -> None:
    ada = new_user(rest, "ada", "admin")
    other = As(rest.client, new_token(rest, "ada", "other"))
    link = ada("POST", "/login-links").json()["url"].partition("code=")[2]
    unused = ada("POST", "/login-links").json()["url"].partition("code=")[2]
    with database.engine.begin() as connection:
        session = use_link(connection, link, PROVENANCE, SESSION_LIFE)
    assert session is not None
    assert session[0] == "ada"
    cookie = {"Cookie": f"treeline_session={session[1].value}", "Authorization": ""}
    assert rest("GET", "/me", **cookie).json()["name"] == "ada"
    assert ada("GET", "/me").status_code == 200
    if ending == "revoked":
        assert rest("DELETE", "/users/ada/tokens/ci").status_code == 204
    elif ending == "disabled":
        assert rest("PATCH", "/users/ada", {"disabled": True}).status_code == 200
    else:
        with database.engine.begin() as connection:
            table = api_tokens if ending == "expired" else token_hashes
            column = table.c["name" if ending == "expired" else "token"]
            change = {"expires_at": sa.func.now()} if ending == "expired" else {"hash": "another"}
            connection.execute(sa.update(table).where(column == "ci").values(change))
    problem(ada("GET", "/me"), 401, "not-authenticated")
    assert other("GET", "/me").status_code == (401 if ending == "disabled" else 200)
    # Without its hash a token that is still issued opens nothing; the session that it made does not need it.
    ended = 200 if ending == "its hash lost" else 401
    assert rest("GET", "/me", **cookie).status_code == ended
    with database.engine.begin() as connection:
        late = use_link(connection, unused, PROVENANCE, SESSION_LIFE)
    cookie["Cookie"] = f"treeline_session={late[1].value if late else ''}"
    assert rest("GET", "/me", **cookie).status_code == ended


def test_who_is_enabled_again_has_its_tokens_and_no_session(rest: Rest, database: Database) -> None:
    ada = new_user(rest, "ada", "viewer")
    ada("POST", "/login-links")
    rest("PATCH", "/users/ada", {"disabled": True})
    problem(rest("POST", "/users/ada/tokens", {"name": "more"}), 409, "state-conflict")
    rest("PATCH", "/users/ada", {"disabled": False})
    assert ada("GET", "/me").status_code == 200
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(sessions.c.actor).union(sa.select(login_links.c.actor))).all() == []


def test_a_name_that_is_given_again_is_another_token(rest: Rest) -> None:
    ada = new_user(rest, "ada")
    problem(rest("POST", "/users/ada/tokens", {"name": "ci"}), 409, "already-exists")
    rest("DELETE", "/users/ada/tokens/ci")
    again = As(rest.client, new_token(rest, "ada"))
    assert again("GET", "/me").status_code == 200
    problem(ada("GET", "/me"), 401, "not-authenticated")


def test_a_token_says_when_it_ends(rest: Rest) -> None:
    rest("POST", "/users", {"name": "ada"})
    answer = rest("POST", "/users/ada/tokens", {"name": "ci", "expires_in_days": 9}).json()
    left = datetime.fromisoformat(answer["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=8) < left <= timedelta(days=9)
    for days in (0, -1, 3651):
        assert rest("POST", "/users/ada/tokens", {"name": "x", "expires_in_days": days}).status_code == 422


def test_tokens_have_an_end(rest: Rest) -> None:
    rest("POST", "/users", {"name": "ada"})
    for n in range(MOST_TOKENS):
        new_token(rest, "ada", f"t{n}")
    problem(rest("POST", "/users/ada/tokens", {"name": "more"}), 409, "state-conflict")
    rest("DELETE", "/users/ada/tokens/t0")
    new_token(rest, "ada", "more")


def test_a_user_sees_and_revokes_its_own_tokens_and_issues_none(rest: Rest) -> None:
    ada, bob = new_user(rest, "ada"), new_user(rest, "bob")
    assert [item["name"] for item in ada("GET", "/users/ada/tokens").json()["items"]] == ["ci"]
    assert ada("GET", "/users/ada").json()["name"] == "ada"
    for user in ("bob", "nobody"):
        for method, path in (("GET", f"/users/{user}"), ("GET", f"/users/{user}/tokens"), ("GET", "/users")):
            problem(ada(method, path), 403, "not-allowed")
        problem(ada("DELETE", f"/users/{user}/tokens/ci"), 403, "not-allowed")
    problem(ada("POST", "/users/ada/tokens", {"name": "kept"}), 403, "not-allowed")
    problem(ada("PUT", "/users/ada/password", {"password": PASSWORD}), 403, "not-allowed")
    assert ada("DELETE", "/users/ada/tokens/ci").status_code == 204
    problem(ada("GET", "/me"), 401, "not-authenticated")
    assert bob("GET", "/me").status_code == 200


def test_an_owner_says_who_belongs_to_its_tenant(rest: Rest) -> None:
    rest("POST", "/tenants", {"name": "acme"})
    rest("POST", "/tenants", {"name": "globex"})
    ada, bob = new_user(rest, "ada", acme="owner"), new_user(rest, "bob")
    problem(bob("GET", "/tenants/acme"), 404, "not-found")
    given = ada("PUT", "/tenants/acme/members/bob", {"membership": "member"})
    assert given.json() == {"user": "bob", "membership": "member", "disabled": False}
    assert bob("GET", "/tenants/acme").status_code == 200
    members = [(item["user"], item["membership"]) for item in bob("GET", "/tenants/acme/members").json()["items"]]
    assert members == [("ada", "owner"), ("bob", "member")]
    problem(bob("PUT", "/tenants/acme/members/bob", {"membership": "owner"}), 403, "not-allowed")
    problem(ada("PUT", "/tenants/globex/members/ada", {"membership": "owner"}), 404, "not-found")
    problem(ada("PUT", "/tenants/acme/members/nobody", {"membership": "owner"}), 404, "not-found")
    assert ada("PUT", "/tenants/acme/members/bob", {"membership": "king"}).status_code == 422
    assert ada("DELETE", "/tenants/acme/members/bob").status_code == 204
    problem(bob("GET", "/tenants/acme"), 404, "not-found")
    problem(rest("PUT", "/tenants/nothing/members/bob", {"membership": "owner"}), 404, "not-found")
    assert rest("GET", "/users/bob").json()["tenants"] == {}


def test_events_name_the_user_as_their_actor(rest: Rest) -> None:
    new_user(rest, "ada", "operator")("POST", "/tenants", {"name": "acme"})
    newest = rest("GET", "/events?limit=1000").json()["items"][-1]
    assert (newest["name"], newest["metadata"]["actor"]) == ("TenantCreated", "ada")


def test_nobody_can_be_called_like_the_admin_of_the_settings(rest: Rest) -> None:
    problem(rest("POST", "/users", {"name": "admin"}), 409, "already-exists")
    for path in ("/users/admin", "/users/admin/tokens"):
        problem(rest("GET", path), 404, "not-found")
    problem(rest("POST", "/users/admin/tokens", {"name": "ci"}), 404, "not-found")


def test_a_key_belongs_to_its_user(rest: Rest) -> None:
    ada, bob = new_user(rest, "ada", "operator"), new_user(rest, "bob", "operator")
    assert ada("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k").status_code == 201
    problem(bob("POST", "/tenants", {"name": "acme"}, Idempotency_Key="k"), 409, "already-exists")


@pytest.mark.parametrize("token", ["treeline_", "treeline_" + "x" * 43, "treeline_" + "x" * 100_000, "treeline_ü"])
def test_a_token_that_is_none_opens_nothing(rest: Rest, token: str) -> None:
    answer = rest.client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}".encode("latin-1")})
    problem(answer, 401, "not-authenticated")


def test_passwords_are_kept_as_scrypt_hashes_of_their_own(rest: Rest, database: Database) -> None:
    for name in ("ada", "bob"):
        rest("POST", "/users", {"name": name})
        assert rest("PUT", f"/users/{name}/password", {"password": PASSWORD}).status_code == 204
    with database.engine.connect() as connection:
        hashes = connection.execute(sa.select(password_hashes.c.hash)).scalars().all()
    assert len(set(hashes)) == 2
    # The least cost, as `quick_passwords` has it; test_password_checks.py has the real one.
    assert all(each.startswith("scrypt$2$8$3$") for each in hashes)
    assert rest("GET", "/users/ada").json()["has_password"] is True


def test_what_one_process_takes_away_is_gone_in_the_other(database: Database, rest: Rest) -> None:
    with served(database.url) as (url, _):
        # From three addresses by turns, since wrong tokens are limited by address.
        sources = [httpx2.HTTPTransport(local_address=f"127.0.0.{number}") for number in (1, 2, 3)]
        here, callers = rest, [Rest(http.client(base_url=url, transport=source)) for source in sources]
        for turn in range(20):
            there = callers[turn % len(callers)]
            new_user_token = new_token(here, "ada") if here("GET", "/users/ada").status_code == 200 else ""
            token = new_user_token or new_user(here, "ada", "viewer").token
            assert As(there.client, token)("GET", "/tenants").status_code == 200
            assert here("DELETE", "/users/ada/tokens/ci").status_code == 204
            assert As(there.client, token)("GET", "/tenants").status_code == 401
        watched = _watch(there, new_token(here, "ada"))
        here("DELETE", "/users/ada/tokens/ci")
        eventually(lambda: not watched.is_alive(), "the open event stream ends")
        watched.join()


def _watch(rest: Rest, token: str) -> threading.Thread:
    """A thread that reads the event stream until it ends."""
    opened = threading.Event()

    def watch() -> None:
        headers: dict[str, Any] = {"Authorization": f"Bearer {token}"}
        with rest.client.stream("GET", "/api/v1/events/stream", headers=headers) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_lines():
                opened.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert opened.wait(30)
    return thread
