"""The database login of the local estate's control plane: it serves, and cannot change history."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import make_url

from backend.estate.programs.database_login import LOGIN
from backend.eventlog.engine import create_engine
from backend.settings import PROJECT_ROOT
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import RunningPostgres, create_database, migrate, run_as_owner

PASSWORD = "p'ass%w:7"
FORBIDDEN = [
    "ALTER TABLE events DROP COLUMN data",
    "ALTER TABLE events DISABLE TRIGGER events_only_grow",
    "ALTER TABLE events OWNER TO CURRENT_USER",
    "DROP TABLE events",
    "DROP TRIGGER events_only_grow ON events",
    "CREATE OR REPLACE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql "
    "AS $$ BEGIN RETURN NEW; END $$",
    "CREATE TRIGGER changed BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()",
    "CREATE TABLE events_beside (id int)",
    "UPDATE events SET data = '{}'",
    "DELETE FROM events",
    "TRUNCATE events",
    "DELETE FROM event_log_head",
    "SET session_replication_role = replica",
    "SET ROLE treeline",
    "GRANT treeline TO treeline_login",
    "ALTER ROLE treeline_login SUPERUSER",
    "SELECT pg_read_file('PG_VERSION')",
]


@pytest.fixture
def owner_url(postgres: RunningPostgres) -> Iterator[str]:
    """Yield the owner's URL of an empty database without the login, on a server with the application's role."""
    name = f"estate_{secrets.token_hex(4)}"
    create_database(postgres.server, name)
    yield postgres.server.url(name)
    run_as_owner(postgres.server, f'DROP DATABASE "{name}" WITH (FORCE)')
    run_as_owner(postgres.server, f"DROP ROLE IF EXISTS {LOGIN}")


def _login_url(owner_url: str, password: str) -> str:
    return make_url(owner_url).set(username=LOGIN, password=password).render_as_string(hide_password=False)


def _prepared(owner_url: str, password: str = PASSWORD) -> str:
    """Prepare the database as the estate's process `migrate` does; return the login's URL."""
    url = _login_url(owner_url, password)
    told = {"TREELINE_MIGRATION_DATABASE_URL": owner_url, "TREELINE_DATABASE_URL": url}
    words = [sys.executable, "-m", "backend.estate.programs.database_login"]
    done = subprocess.run(
        words, cwd=PROJECT_ROOT, env={**os.environ, **told}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return url


def test_the_control_plane_works_by_it(owner_url: str) -> None:
    with serve_here(_prepared(owner_url)) as console:
        console.rest.ok("POST", "/tenants", {"name": "acme"})
        assert console.rest.ok("GET", "/events/verification")["ok"] is True
        assert console.get("/readyz").json()["checks"] == {
            "database": "ok",
            "migrations": "ok",
            "projections": "ok",
        }


def test_it_can_neither_change_history_nor_become_who_can(owner_url: str) -> None:
    # With the login's own rights: not yet in the application's role.
    url, allowed = _prepared(owner_url).replace("+psycopg", ""), []
    for statement in FORBIDDEN:
        with psycopg.connect(url) as connection, contextlib.suppress(InsufficientPrivilege):
            connection.execute(statement)
            allowed.append(statement)
    assert allowed == []


def test_an_estate_of_an_earlier_version_gets_it_and_a_new_password_counts(owner_url: str) -> None:
    migrate(owner_url)
    engine = create_engine(_prepared(owner_url))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT session_user")) == LOGIN
        assert connection.scalar(sa.text("SELECT current_user")) == "treeline_application"
        assert connection.scalar(sa.text("SELECT count(*) FROM events")) == 0
    engine.dispose()
    engine = create_engine(_prepared(owner_url, "another"))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT session_user")) == LOGIN
    engine.dispose()


def test_without_the_owner_s_address_it_says_which_setting_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backend.estate.programs.database_login"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_MIGRATION_DATABASE_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "TREELINE_MIGRATION_DATABASE_URL is not set" in done.stderr
