"""Writing down what units measure of their streams: in transactions of their own, a bounded number of rows each.

There may be tens of thousands of rows, all of them new when a worker begins; leases must not wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any, Protocol

import sqlalchemy as sa
import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.distribution.assignment import Unit
from backend.domain.distribution.edges import EdgePlan
from backend.queries.distribution import stream_measures

log = structlog.get_logger("measures")

MOST_ROWS = 2000
"""Of one transaction: some tens of milliseconds, of a lease's seconds."""
_STATEMENT_MS = 1000
_FORGET_EVERY_SECONDS = 600.0


class Measuring(Protocol):
    """A unit's thread, as far as it is asked here."""

    unit: Unit

    def take_measures(self) -> list[dict[str, Any]]:
        """Rows of `stream_measures` in which something is new since the last call."""
        ...


class MeasureBook:
    """What the units of one process have measured and the database does not have yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._unwritten: dict[tuple[str, str], dict[str, Any]] = {}
        self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS

    def take(self, threads: Iterable[Measuring]) -> None:
        """Take what is new. A row that still waits keeps its turn, and is written as it is then."""
        self._unwritten.update(_rows(threads))

    def write_last(self, threads: Collection[Measuring]) -> None:
        """Write all of units that this process lets go, before others: once they have another holder, nothing of
        these counts is taken any more."""
        names = {thread.unit.name for thread in threads}
        self._unwritten.update(_rows(threads))
        theirs = {key: row for key, row in self._unwritten.items() if key[0] in names}
        self._unwritten = theirs | self._unwritten
        for _ in range(0, len(theirs), MOST_ROWS):
            if not self.write():
                return

    def write(self) -> bool:
        """Write those that have waited longest, at most `MOST_ROWS`; False if that failed: they are then written
        another time."""
        turn = list(self._unwritten)[:MOST_ROWS]
        if not turn:
            return True
        try:
            with self._engine.begin() as connection:
                # A lock that somebody holds must not keep the caller from renewing leases.
                connection.execute(sa.text(f"SET LOCAL statement_timeout = {_STATEMENT_MS}"))
                # Sorted, so that two holders that write the same rows never wait for each other in a ring.
                stream_measures.write(connection, [self._unwritten[key] for key in sorted(turn)])
        except DomainError as error:
            log.warning("measures of streams not written yet", reason=error.detail, rows=len(self._unwritten))
            return False
        for key in turn:
            del self._unwritten[key]
        return True

    def forget_others(self, plans: Collection[EdgePlan]) -> None:
        """Now and then drop the rows of units and streams that no plan has any more."""
        if not plans or time.monotonic() < self._forget_due:
            return
        self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS
        streams = {row.stream for plan in plans for row in plan.streams}
        try:
            with self._engine.begin() as connection:
                stream_measures.forget_others(connection, [plan.unit.name for plan in plans], streams)
        except DomainError as error:
            log.warning("measures of what is no more not dropped yet", reason=error.detail)


def _rows(threads: Iterable[Measuring]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(thread.unit.name, row["stream"]): row for thread in threads for row in thread.take_measures()}
