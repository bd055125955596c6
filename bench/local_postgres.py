"""A PostgreSQL of a benchmark's own, with its usual durability."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine

from backend.estate.programs.postgres import PostgresServer
from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable

PROJECT_ROOT = Path(__file__).resolve().parent.parent


def nothing(_: Connection) -> None:
    """Prepare nothing."""


@contextmanager
def postgres(prepare: Callable[[Connection], None] = nothing) -> Iterator[Engine]:
    """Yield a migrated database on a server that ends with the block; the owner prepares it."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        server = PostgresServer(data_dir=Path(folder) / "data", port=port, password=secrets.token_hex(8))
        server.initialise()
        process = subprocess.Popen(server.command(), stderr=subprocess.DEVNULL)
        try:
            owner = create_engine(server.url("postgres"), role=None)
            while process.poll() is None:
                try:
                    with owner.connect() as connection:
                        config = Config(PROJECT_ROOT / "alembic.ini")
                        config.attributes["connection"] = connection
                        command.upgrade(config, "head")
                        prepare(connection)
                        connection.commit()
                    break
                except DatabaseUnavailable:
                    time.sleep(0.05)
            owner.dispose()
            engine = create_engine(server.url("postgres"))
            yield engine
            engine.dispose()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
