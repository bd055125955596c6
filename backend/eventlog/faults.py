"""What can go wrong between the control plane and its event log, and the one place that tells it apart.

`backend/eventlog/engine.py` runs `translate` on every error of the driver, so nobody above sees a driver's
exception for a database that is gone, full or busy: they see a `DatabaseUnavailable`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from backend.domain.base.errors import DomainError, Kind


class DatabaseUnavailable(DomainError):
    """The control plane's database cannot do this now."""

    slug = "database-unavailable"
    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class TransactionEnded(DatabaseUnavailable):
    """The control plane's database cannot do this now."""

    # The slug of its parent: a client has to know no more. The dispatcher does: nothing was saved, so the command
    # may run again.


class LogBusy(DatabaseUnavailable):
    """Other commands held the event log for too long."""

    slug = "event-log-busy"


class OutcomeUnknown(DatabaseUnavailable):
    """The database was lost while it saved this."""

    slug = "outcome-unknown"


class IdempotencyKeyReused(DomainError):
    """This Idempotency-Key came with another request before."""

    slug = "idempotency-key-reused"


class NotStorable(DomainError):
    """The event log cannot keep this value unchanged."""

    slug = "not-storable"


class WrongExpectedVersion(Exception):
    """A stream's version is not the one that the writer based its events on."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"{stream} is at version {actual}, not {expected}")
        self.stream = stream
        self.expected = expected
        self.actual = actual


class EventUnreadable(Exception):
    """A stored event has no class in this program, or its data does not fit the class.

    Happens when an older program reads a newer log, or when a shipped event was edited.
    """


# SQLSTATE classes in which the server did not even look at what was asked: connection exception,
# insufficient resources (disk full, too many connections), operator intervention (shutdown, statement
# timeout), system error, transaction rollback (deadlock).
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58", "40")
_LOCK_NOT_AVAILABLE = "55P03"
_IDLE_IN_TRANSACTION = "25P03"
_READ_ONLY = "25006"
_NO_ROLE = re.compile(r'role ".*" does not exist|permission denied to set role')


def translate(sqlstate: str | None, message: str, *, lost: bool) -> DomainError | None:
    """The failure that a driver's error means, or None if it is our own mistake (bad SQL, broken rule).

    `sqlstate` is None if no server answered; `lost` says that the connection is unusable.
    """
    if sqlstate is None and "NUL (0x00)" in message:
        return NotStorable("A text contains the character NUL, which the database does not have.")
    if sqlstate == _LOCK_NOT_AVAILABLE:
        return LogBusy("Other commands are being saved; nothing was changed. Try again.")
    if sqlstate == _IDLE_IN_TRANSACTION:
        return TransactionEnded(
            "The control plane's process stood still for too long, and the database ended what it was doing "
            f"(SQLSTATE {sqlstate}); nothing was changed. Try again."
        )
    # While it connects the driver knows no SQLSTATE, only what the server said.
    if _NO_ROLE.search(message):
        return DatabaseUnavailable(
            "The database does not know the application's role, or its login may not take it: "
            "run `python -m migrations` as the database's owner."
        )
    if sqlstate is None and lost:
        return DatabaseUnavailable("The database does not answer. Try again.")
    if sqlstate is not None and (sqlstate[:2] in _UNAVAILABLE_CLASSES or sqlstate == _READ_ONLY):
        return DatabaseUnavailable(f"The database cannot do this now (SQLSTATE {sqlstate}). Try again.")
    return None
