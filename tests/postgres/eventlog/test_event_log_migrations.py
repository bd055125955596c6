"""Migrations create the tables that the code declares, with as few rights as possible."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ProgrammingError

from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.store import PostgresEventLog
from migrations.declared import declared_tables
from tests.support.database.postgres import PROJECT_ROOT, create_database, migrate, run_as_owner
from tests.support.database.sample_events import METADATA as WHO
from tests.support.database.sample_events import TIME, paid, registry


@pytest.fixture
def empty_url(postgres):
    """Yield the URL of a database without any table."""
    name = f"empty_{secrets.token_hex(6)}"
    create_database(postgres.server, name)
    yield postgres.server.url(name)
    run_as_owner(postgres.server, f'DROP DATABASE "{name}" WITH (FORCE)')


def test_the_migrated_database_has_the_tables_that_the_code_declares(database):
    with database.owner.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), declared_tables())
    assert differences == []


def alembic_upgrade(url: str, application_url: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TREELINE_MIGRATION_DATABASE_URL": url,
        "TREELINE_DATABASE_URL": application_url or url,
    }
    return subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"],
        cwd=PROJECT_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_migrations_at_once_are_one(empty_url):
    with ThreadPoolExecutor(2) as pool:
        finished = list(pool.map(alembic_upgrade, [empty_url] * 2))
    assert [each.returncode for each in finished] == [0, 0], finished
    with create_engine(empty_url).connect() as connection:
        assert PostgresEventLog(connection, registry()).verify().ok


def test_migrations_can_be_taken_back_and_made_again(empty_url):
    migrate(empty_url)
    config = Config(PROJECT_ROOT / "alembic.ini")
    engine = create_engine(empty_url, role=None)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        connection.commit()
        assert set(sa.inspect(connection).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    migrate(empty_url)


@pytest.mark.nightly  # the other end of the same right
def test_a_database_without_the_role_says_what_to_do(own_postgres):
    run_as_owner(own_postgres.server, "CREATE DATABASE other")
    run_as_owner(own_postgres.server, f"DROP DATABASE {make_url(own_postgres.url).database}")
    run_as_owner(own_postgres.server, "DROP ROLE treeline_application")
    with pytest.raises(DatabaseUnavailable, match="python -m migrations"):
        create_engine(own_postgres.server.url("other")).connect()


def login(postgres, url: str, name: str) -> str:
    run_as_owner(postgres.server, f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    made = make_url(url).set(username=name, password="secret")
    return made.render_as_string(hide_password=False)


def test_a_login_of_its_own_becomes_the_application(postgres, empty_url):
    """In production the owner migrates, and another login without any right of its own serves."""
    name = f"serving_{secrets.token_hex(4)}"
    url = login(postgres, empty_url, name)
    finished = alembic_upgrade(empty_url, application_url=url)
    assert finished.returncode == 0, finished.stderr
    engine = create_engine(url)
    with engine.begin() as connection:
        log = PostgresEventLog(connection, registry())
        log.append("a", 0, [paid(1)], metadata=WHO, time=TIME)
        assert log.verify().ok
    with engine.connect() as connection, pytest.raises(ProgrammingError, match="permission denied"):
        connection.execute(sa.text("DELETE FROM events"))
    engine.dispose()
    run_as_owner(postgres.server, f"DROP ROLE {name}")


def test_a_migration_that_may_not_grant_says_what_an_administrator_must_run(postgres, empty_url):
    name = f"owning_{secrets.token_hex(4)}"
    url = login(postgres, empty_url, name)
    database = make_url(empty_url).database
    run_as_owner(postgres.server, f'ALTER DATABASE "{database}" OWNER TO {name}')
    refused = alembic_upgrade(url)
    assert refused.returncode != 0
    assert f"Have an administrator run `GRANT treeline_application TO {name};`" in refused.stderr
    run_as_owner(postgres.server, f"GRANT treeline_application TO {name}")
    finished = alembic_upgrade(url)
    assert finished.returncode == 0, finished.stderr
    run_as_owner(postgres.server, f"DROP OWNED BY {name}", database=database)
    run_as_owner(postgres.server, f'ALTER DATABASE "{database}" OWNER TO CURRENT_USER')
    run_as_owner(postgres.server, f"DROP ROLE {name}")


def test_tables_of_later_migrations_are_open_to_the_application(database):
    with database.owner.begin() as connection:
        connection.execute(sa.text("CREATE TABLE later (id serial PRIMARY KEY, note text)"))
    with database.engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO later (note) VALUES ('x')"))
        connection.execute(sa.text("UPDATE later SET note = 'y'"))
        connection.execute(sa.text("DELETE FROM later"))
