"""A real PostgreSQL for tests: one embedded server per test process, one fresh migrated database per test."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine

from backend.estate.ports import free_ports
from backend.estate.programs.postgres import OWNER, PostgresServer
from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.postgres_versions import version_number
from backend.parent_exit import exit_with_parent
from tests.support.machine.short_lived import short_lived

PROJECT_ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = "treeline_template"
READY_SECONDS = 30
_SINCE_SCRAM_ITERATIONS = 160000
# Kills of the server process lose nothing without fsync; only a power failure would.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "max_connections": "200",
    "max_wal_size": "128MB",
}
OTHER_PROGRAMS = Path(os.environ["TREELINE_TEST_POSTGRES"]) if "TREELINE_TEST_POSTGRES" in os.environ else None
"""Folder of another version's programs, to run any test on it, as test_postgres_versions.py does."""

Content = Callable[[str], None]
"""Fills a migrated database, given its URL, and leaves no connection behind."""


class RunningPostgres:
    """A server process under a test's control; `kill` is its power cut."""

    def __init__(
        self, data_dir: Path, options: dict[str, str] | None = None, programs: Path | None = None
    ) -> None:
        self.server = PostgresServer(
            data_dir=data_dir,
            port=free_ports(1)[0],
            password=secrets.token_urlsafe(8),
            options=options if options is not None else FAST,
            programs=programs or OTHER_PROGRAMS,
        )
        self._log = data_dir.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._owner: Engine | None = None
        self._filled: dict[Content, str] = {}
        self.server.initialise()

    @property
    def url(self) -> str:
        """Return the URL of the database that the fixtures migrate."""
        return self.server.url(TEMPLATE)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.server.command(),
                stdout=log,
                stderr=log,
                # A killed test run leaves no server behind.
                preexec_fn=lambda: exit_with_parent(signal.SIGQUIT),
            )
        self._wait_until_ready()

    def run(self, statement: str) -> None:
        """Run one statement as the owner, outside a transaction, on a connection that is kept for the next one."""
        with self._owners().connect() as connection:
            connection.execute(sa.text(statement))

    def make_logins_cheap(self) -> None:
        """Hash the owner's password once instead of 4,096 times, since each test logs in several times."""
        with self._owners().connect() as connection:
            if version_number(connection) >= _SINCE_SCRAM_ITERATIONS:
                connection.exec_driver_sql("SET scram_iterations = 1")
                connection.exec_driver_sql(f"ALTER ROLE {OWNER} PASSWORD '{self.server.password}'")

    def create(self, name: str, template: str) -> None:
        """Create a database with the content of another one, whose files are copied as they are."""
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _owners(self) -> Engine:
        if self._owner is None:
            engine = create_engine(self.server.url("postgres"), role=None, lock_timeout_ms=0)
            self._owner = engine.execution_options(isolation_level="AUTOCOMMIT")
        return self._owner

    def template(self, content: Content | None) -> str:
        """Return the template database with this content; it is made once for all tests."""
        if content is None:
            return TEMPLATE
        if content not in self._filled:
            name = f"{TEMPLATE}_{secrets.token_hex(6)}"
            self.create(name, TEMPLATE)
            content(self.server.url(name))
            # PostgreSQL cannot copy a database with connections, and those may outlive their clients.
            self.run(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
            self._filled[content] = name
        return self._filled[content]

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Crash the server: SIGQUIT ends every server process at once and leaves recovery to the next start."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._owner is not None:
            self._owner.dispose()
            self._owner = None
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(READY_SECONDS)
            self._process = None

    def _wait_until_ready(self) -> None:
        engine = create_engine(self.server.url("postgres"), role=None)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                with engine.connect():
                    break
            except DatabaseUnavailable:
                if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                    pytest.fail(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")
                time.sleep(0.02)
        engine.dispose()


@dataclass(frozen=True)
class Database:
    """One migrated database. `engine` is the application's, `owner` may do everything."""

    url: str
    engine: Engine
    owner: Engine


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPostgres]:
    """Yield the session's server, with a migrated template database."""
    with short_lived(tmp_path_factory.mktemp("postgres")) as folder:
        yield from _migrated(folder / "data")


@pytest.fixture
def database_content() -> Content | None:
    """Return the initial content of a test's database; None: empty. Overridden where many tests share content."""
    return None


@pytest.fixture
def database(postgres: RunningPostgres, database_content: Content | None) -> Iterator[Database]:
    """Yield a fresh database, dropped after the test."""
    with fresh_database(postgres, database_content) as made:
        yield made


@contextmanager
def fresh_database(postgres: RunningPostgres, content: Content | None = None) -> Iterator[Database]:
    """Yield a migrated database with this content, dropped at the end."""
    name = f"test_{secrets.token_hex(6)}"
    postgres.create(name, postgres.template(content))
    url = postgres.server.url(name)
    engine, owner = create_engine(url), create_engine(url, role=None)
    yield Database(url, engine, owner)
    engine.dispose()
    owner.dispose()
    postgres.drop(name)


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[RunningPostgres]:
    """Yield a server with a migrated database, for one test that stops, kills or starves it."""
    yield from _migrated(tmp_path / "data")


def _migrated(data_dir: Path, programs: Path | None = None) -> Iterator[RunningPostgres]:
    running = RunningPostgres(data_dir, programs=programs)
    running.start()
    running.make_logins_cheap()
    running.create(TEMPLATE, "template1")
    migrate(running.url)
    yield running
    running.kill()


def create_database(server: PostgresServer, name: str, template: str = "template1") -> None:
    run_as_owner(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def run_as_owner(server: PostgresServer, statement: str, database: str = "postgres") -> None:
    """Run one statement outside a transaction."""
    engine = create_engine(server.url(database), role=None, lock_timeout_ms=0)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def migrate(url: str, revision: str = "head", application_login: str | None = None) -> None:
    """Bring a database to a revision, as its owner."""
    config = Config(PROJECT_ROOT / "alembic.ini")
    config.attributes["application_login"] = application_login
    engine = create_engine(url, role=None)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()
    engine.dispose()
