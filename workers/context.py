"""Resources of a worker process: the database, and the dispatcher of commands. Created after the fork."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TypeVar

from sqlalchemy import Connection, Engine

from backend.dispatch import Decider, Directed, Dispatcher
from backend.eventlog.engine import create_engine
from backend.eventlog.recorded import Metadata
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.settings import settings

S = TypeVar("S")
C = TypeVar("C")


@cache
def engine() -> Engine:
    """Return this process's connections to PostgreSQL."""
    return create_engine(settings().database_url)


@cache
def dispatcher() -> Dispatcher:
    """Return this process's dispatcher."""
    return Dispatcher(engine(), domain_registry(), PROJECTIONS)


def dispatch(
    decider: Decider[S, C],
    stream: str,
    command: C | Callable[[Connection], C],
    actor: str,
    request_id: str,
    *,
    expected_version: int | None = None,
    dry_run: bool = False,
) -> None:
    """Record what a worker observed or did. Raises StaleVersion if the stream is not at `expected_version`.

    `dry_run`: execute everything, then roll back.
    """
    dispatcher().execute(
        decider,
        stream,
        command,
        metadata=Metadata(actor=actor, request_id=request_id, causation=None),
        time=datetime.now(UTC),
        expected_version=expected_version,
        dry_run=dry_run,
        answer=lambda _connection, _outcome: None,
    )


def dispatch_all(build: Callable[[Connection], Sequence[Directed]]) -> None:
    """Record several commands, built from reads under the append lock: all of them, or none."""
    dispatcher().execute_many(build, time=datetime.now(UTC))


def dispatch_many(commands: Sequence[Directed]) -> None:
    """Record many observations or actions of a worker: all of them, or none."""
    dispatcher().execute_many(commands, time=datetime.now(UTC))
