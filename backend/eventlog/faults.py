"""Failures between the control plane and its event log, and the one place that tells them apart.

`backend/eventlog/engine.py` runs `translate` on every error of the driver, so no caller sees a driver's exception
for a database that is gone, full or busy, but a `DatabaseUnavailable`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from backend.domain.base.errors import DomainError, Kind


class DatabaseUnavailable(DomainError):
    """The control plane's database is not available."""

    slug = "database-unavailable"
    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class TransactionEnded(DatabaseUnavailable):
    """The control plane's database is not available."""

    # It keeps its parent's slug, since a client needs to know no more. The dispatcher does: nothing was saved, so
    # the command may run again.


class LogBusy(DatabaseUnavailable):
    """Other commands held the event log for too long."""

    slug = "event-log-busy"


class OutcomeUnknown(DatabaseUnavailable):
    """The connection to the database was lost during the commit."""

    slug = "outcome-unknown"


class IdempotencyKeyReused(DomainError):
    """The Idempotency-Key was used with another request before."""

    slug = "idempotency-key-reused"


class NotStorable(DomainError):
    """The event log cannot store this value unchanged."""

    slug = "not-storable"


class WrongExpectedVersion(Exception):
    """A stream's version is not the one on which the writer based its events."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"{stream} is at version {actual}, not {expected}")
        self.stream = stream
        self.expected = expected
        self.actual = actual


class EventUnreadable(Exception):
    """A stored event has no class in this program, or its data does not fit the class.

    This happens when an older program reads a newer log, or when a shipped event was edited.
    """


# SQLSTATE classes in which the server did not process the statement at all: connection exception, insufficient
# resources (disk full, too many connections), operator intervention (shutdown, statement timeout), system error,
# transaction rollback (deadlock).
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58", "40")
_LOCK_NOT_AVAILABLE = "55P03"
_IDLE_IN_TRANSACTION = "25P03"
_READ_ONLY = "25006"
_NO_ROLE = re.compile(r'role ".*" does not exist|permission denied to set role')


def translate(sqlstate: str | None, message: str, *, lost: bool) -> DomainError | None:
    """Return the failure that a driver's error means, or None for a mistake of ours (bad SQL, broken rule).

    `sqlstate` is None if no server answered; `lost` is True if the connection is unusable.
    """
    if sqlstate is None and "NUL (0x00)" in message:
        return NotStorable("A text contains the character NUL, which the database cannot store.")
    if sqlstate == _LOCK_NOT_AVAILABLE:
        return LogBusy("Other commands are being saved; nothing was changed. Try again.")
    if sqlstate == _IDLE_IN_TRANSACTION:
        return TransactionEnded(
            "The control plane's process stalled in a transaction for too long, so the database rolled it back "
            f"(SQLSTATE {sqlstate}). Nothing was changed. Try again."
        )
    # During connection setup the driver knows no SQLSTATE, only the server's message.
    if _NO_ROLE.search(message):
        return DatabaseUnavailable(
            "The application's role does not exist in the database, or its login may not assume it: run "
            "`python -m migrations` as the database's owner."
        )
    if sqlstate is None and lost:
        return DatabaseUnavailable("The database does not respond. Try again.")
    if sqlstate is not None and (sqlstate[:2] in _UNAVAILABLE_CLASSES or sqlstate == _READ_ONLY):
        return DatabaseUnavailable(f"The database is temporarily unavailable (SQLSTATE {sqlstate}). Try again.")
    return None
