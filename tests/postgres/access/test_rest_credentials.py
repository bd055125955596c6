"""Passwords of applications: shown once, sealed, and nowhere else."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from backend.eventlog.tables import idempotency_keys
from backend.queries.access.sealing import keys_of
from backend.queries.tenants.secrets_of_applications import application_secrets, password
from tests.postgres.access.test_rest_users import everything_stored
from tests.support.api.applications import APPLICATIONS, BILLING, declare, set_key
from tests.support.api.callers import new_user
from tests.support.api.rest import SECRETS_KEY, Rest, problem
from tests.support.database.postgres import Database

KEY, NEW_KEY = SECRETS_KEY, "n" * 40


def test_a_password_is_shown_once_sealed_and_stands_nowhere_else(
    both: Rest, database: Database, logged_events: list[dict[str, Any]]
) -> None:
    declare(both)
    issued = both("POST", f"{APPLICATIONS}/billing/credentials", Idempotency_Key="k")
    assert issued.status_code == 201, issued.text
    secret = issued.json()["password"]
    assert len(secret) == 43
    assert issued.json() == {
        "username": BILLING,
        "password": secret,
        "mechanisms": ["SCRAM-SHA-512", "SCRAM-SHA-256"],
        "number": 1,
    }
    again = both("POST", f"{APPLICATIONS}/billing/credentials", Idempotency_Key="k")
    assert again.json() == issued.json() | {"password": None}
    assert both("GET", f"{APPLICATIONS}/billing").json()["credentials"] == {"number": 1}
    assert logged_events
    texts = [everything_stored(database), *map(str, logged_events)]
    texts += [both("GET", path).text for path in (f"{APPLICATIONS}/billing", "/events?limit=1000")]
    assert not any(secret in text or KEY in text for text in texts)
    with database.engine.connect() as connection:
        assert secret not in str(connection.execute(sa.select(idempotency_keys)).all())
        assert password(connection, BILLING, 1, [KEY]) == secret
        assert password(connection, BILLING, 1, [NEW_KEY, KEY]) == secret
        assert password(connection, BILLING, 1, [NEW_KEY]) is None
        assert password(connection, BILLING, 2, [KEY]) is None
        assert password(connection, BILLING + "s", 1, [KEY]) is None
        assert password(connection, BILLING, 1, ()) is None


def test_a_new_password_replaces_the_old_and_what_is_revoked_is_forgotten(both: Rest, database: Database) -> None:
    declare(both)
    first, second = (both("POST", f"{APPLICATIONS}/billing/credentials").json() for _ in range(2))
    assert (first["number"], second["number"]) == (1, 2)
    assert kept(database, 1) is None
    assert kept(database, 2) == second["password"]
    assert both("DELETE", f"{APPLICATIONS}/billing/credentials").status_code == 204
    assert both("GET", f"{APPLICATIONS}/billing").json()["credentials"] is None
    assert kept(database, 2) is None
    problem(both("DELETE", f"{APPLICATIONS}/billing/credentials"), 404, "not-found")
    third = both("POST", f"{APPLICATIONS}/billing/credentials").json()
    assert (third["number"], kept(database, 3)) == (3, third["password"])
    assert both("DELETE", f"{APPLICATIONS}/billing").status_code == 204
    assert kept(database, 3) is None


def kept(database: Database, number: int) -> str | None:
    with database.engine.connect() as connection:
        return password(connection, BILLING, number, [KEY])


def test_a_sealed_password_that_was_moved_opens_nothing(both: Rest, database: Database) -> None:
    for name in ("billing", "audit"):
        declare(both, name)
        both("POST", f"{APPLICATIONS}/{name}/credentials")
    s = application_secrets.c
    with database.owner.begin() as connection:
        sealed = connection.execute(sa.select(s.sealed).where(s.principal == BILLING)).scalar_one()
        connection.execute(sa.update(application_secrets).values(sealed=sealed))
    with database.engine.connect() as connection:
        assert password(connection, BILLING, 1, [KEY]) is not None
        assert password(connection, "acme/retail/prod/audit", 1, [KEY]) is None


def test_without_a_key_there_are_no_passwords(both: Rest) -> None:
    declare(both)
    head = both.head()
    for key, said in (
        (None, "TREELINE_SECRETS_KEY"),
        ("", "TREELINE_SECRETS_KEY"),
        ("sh0rt", "32 characters"),
    ):
        set_key(both, key)
        refused = problem(both("POST", f"{APPLICATIONS}/billing/credentials"), 409, "state-conflict")
        assert said in refused["detail"]
        assert "sh0rt" not in refused["detail"]
    assert both.head() == head
    assert keys_of(SecretStr(f"{KEY}, {NEW_KEY},")) == (KEY, NEW_KEY)


def test_a_members_passwords_are_the_owners_to_give(both: Rest) -> None:
    ada, bob = new_user(both, "ada", acme="member"), new_user(both, "bob", acme="owner")
    declare(ada)
    problem(ada("POST", f"{APPLICATIONS}/billing/credentials"), 403, "not-allowed")
    assert bob("POST", f"{APPLICATIONS}/billing/credentials").status_code == 201
    problem(ada("DELETE", f"{APPLICATIONS}/billing/credentials"), 403, "not-allowed")
    assert ada("DELETE", f"{APPLICATIONS}/billing").status_code == 204
