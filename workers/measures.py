"""Storage of the measures of tasks: in separate transactions, with a limited number of rows each.

There may be tens of thousands of rows, all of them new when a worker starts; leases must not wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any, Protocol

import sqlalchemy as sa
import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import EdgePlan
from backend.queries.distribution import stream_measures

log = structlog.get_logger("measures")

MOST_ROWS = 2000
"""Maximum of one transaction: some tens of milliseconds, of a lease's seconds."""
_STATEMENT_MS = 1000
_FORGET_EVERY_SECONDS = 600.0


class Measuring(Protocol):
    """Part of a task's thread that is used here."""

    task: Task

    def take_measures(self) -> list[dict[str, Any]]:
        """Return the rows of `stream_measures` that changed since the last call."""
        ...


class MeasureBook:
    """Measures of one process's tasks that are not in the database yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._unwritten: dict[tuple[str, str], dict[str, Any]] = {}
        self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS

    def take(self, threads: Iterable[Measuring]) -> None:
        """Take new measures. A row that is still waiting keeps its turn, and is written with its newest values."""
        self._unwritten.update(_rows(threads))

    def write_last(self, threads: Collection[Measuring]) -> None:
        """Write all measures of tasks that this process releases, before others.

        Once the tasks have another holder, counts of this one are no longer accepted.
        """
        names = {thread.task.name for thread in threads}
        self._unwritten.update(_rows(threads))
        theirs = {key: row for key, row in self._unwritten.items() if key[0] in names}
        self._unwritten = theirs | self._unwritten
        for _ in range(0, len(theirs), MOST_ROWS):
            if not self.write():
                return

    def write(self) -> bool:
        """Write the rows that have waited longest, at most `MOST_ROWS`.

        Returns False if that failed: they are then written later.
        """
        turn = list(self._unwritten)[:MOST_ROWS]
        if not turn:
            return True
        try:
            with self._engine.begin() as connection:
                # A lock held elsewhere must not keep the caller from renewing leases.
                connection.execute(sa.text(f"SET LOCAL statement_timeout = {_STATEMENT_MS}"))
                # Sorted, so that two holders that write the same rows cannot deadlock.
                stream_measures.write(connection, [self._unwritten[key] for key in sorted(turn)])
        except DomainError as error:
            log.warning("measures of streams not written yet", reason=error.detail, rows=len(self._unwritten))
            return False
        for key in turn:
            del self._unwritten[key]
        return True

    def forget_others(self, plans: Collection[EdgePlan]) -> None:
        """Delete, now and then, the rows of tasks and streams that no plan has any more."""
        if not plans or time.monotonic() < self._forget_due:
            return
        self._forget_due = time.monotonic() + _FORGET_EVERY_SECONDS
        streams = {row.stream for plan in plans for row in plan.streams}
        try:
            with self._engine.begin() as connection:
                stream_measures.forget_others(connection, [plan.task.name for plan in plans], streams)
        except DomainError as error:
            log.warning("measures of removed tasks not deleted yet", reason=error.detail)


def _rows(threads: Iterable[Measuring]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(thread.task.name, row["stream"]): row for thread in threads for row in thread.take_measures()}
