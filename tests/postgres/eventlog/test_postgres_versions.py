"""The oldest PostgreSQL that Treeline supports, and messages for those that it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from backend.eventlog import postgres_versions
from backend.eventlog.engine import create_engine
from backend.eventlog.postgres_versions import NEWEST, OLDEST, shown, why_unsupported, why_untested
from backend.settings import PROJECT_ROOT
from tests.support.api import http
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import RunningPostgres, _migrated, migrate

OLDEST_PROGRAMS = Path(f"/usr/lib/postgresql/{OLDEST}/bin")
"""Debian's programs: apt-get install postgresql-15."""
needs_oldest = pytest.mark.skipif(
    not (OLDEST_PROGRAMS / "postgres").exists(),
    reason=f"no PostgreSQL {OLDEST} here: apt-get install postgresql-15",
)
ALL_OF_ITS_SQL = [
    "tests/postgres/eventlog/test_event_store.py",
    "tests/postgres/eventlog/test_temporal_rows.py",
    "tests/postgres/distribution/test_leases.py",
    "tests/postgres/eventlog/test_projection_rebuild.py",
    "tests/kafka/access",
    "tests/kafka/schemas",
    "tests/postgres/schemas",
]


@pytest.fixture
def oldest(tmp_path: Path) -> Iterator[RunningPostgres]:
    yield from _migrated(tmp_path / "data", OLDEST_PROGRAMS)


@needs_oldest
def test_the_oldest_version_is_migrated_and_serves(oldest: RunningPostgres) -> None:
    engine = create_engine(oldest.url)
    with engine.connect() as connection:
        assert postgres_versions.version_number(connection) // 10_000 == OLDEST
        assert connection.scalar(sa.text("SELECT current_user")) == "treeline_application"
    engine.dispose()
    with serve_here(oldest.url) as console:
        console.rest.ok("POST", "/tenants", {"name": "acme"})
        assert [row["name"] for row in console.rest.ok("GET", "/tenants")["items"]] == ["acme"]
        assert http.get(f"{console.url}/readyz").json()["checks"]["database"] == "ok"


@needs_oldest
def test_a_login_that_is_no_member_of_the_application_s_role_becomes_one(oldest: RunningPostgres) -> None:
    owner = create_engine(oldest.url, role=None)
    with owner.begin() as connection:
        connection.execute(sa.text("CREATE ROLE program LOGIN"))
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    migrate(oldest.url, application_login="program")
    with owner.connect() as connection:
        assert connection.scalar(sa.text("SELECT pg_has_role('program', 'treeline_application', 'MEMBER')"))
    owner.dispose()


@needs_oldest
@pytest.mark.nightly
def test_every_statement_runs_on_the_oldest_version() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", *ALL_OF_ITS_SQL],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_TEST_POSTGRES": str(OLDEST_PROGRAMS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]


def test_an_older_one_is_refused_before_anything_is_made(
    database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_versions, "OLDEST", 99)
    with pytest.raises(SystemExit, match=r"is too old: Treeline needs 99 or newer and is tested with 99 to"):
        migrate(database.url)
    with serve_here(database.url) as console:
        answer = http.get(f"{console.url}/readyz")
        assert answer.status_code == 503
        assert "is too old" in answer.json()["checks"]["database"]


@pytest.mark.parametrize(
    ("number", "text", "refused", "doubted"),
    [
        (90_624, "9.6.24", True, False),
        (140_009, "14.9", True, False),
        (OLDEST * 10_000, f"{OLDEST}.0", False, False),
        (NEWEST * 10_000 + 6, f"{NEWEST}.6", False, False),
        ((NEWEST + 1) * 10_000, f"{NEWEST + 1}.0", False, True),
    ],
)
def test_what_is_too_old_is_refused_and_what_is_too_new_is_doubted(
    number: int, text: str, refused: bool, doubted: bool
) -> None:
    assert shown(number) == text
    assert (why_unsupported(number) is not None) is refused
    assert (why_untested(number) is not None) is doubted
