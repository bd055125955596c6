"""Time of the observations that a page of an earlier position shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from backend.domain.access.access import Caller, tenants_read
from backend.queries.base.events import newest_up_to, times_of
from backend.queries.history.snapshots import Snapshot, oldest_snapshot, snapshot_before
from backend.web.frame.requested_position import Past, requested_position
from backend.web.words.figures import instant, span


@dataclass(frozen=True, kw_only=True)
class PastObservation:
    """Observation shown by a page of an earlier position; None if none of that time is stored."""

    snapshot: Snapshot | None
    oldest: datetime | None
    """Oldest stored observation."""
    is_own: bool
    """True if the moment is that of the newest of the viewer's own events by then."""

    @property
    def sentence(self) -> str:
        """Return the sentence that follows a colon."""
        if self.snapshot is not None:
            event = "your newest event by then" if self.is_own else "it"
            before = span(1000 * self.snapshot.seconds_before)
            return f"the observation of {instant(self.snapshot.at)} UTC, {before} before {event}"
        when = "at your newest event by then" if self.is_own else "for that time"
        if self.oldest is None:
            return f"there is no observation {when}, since no worker has made one yet"
        return f"the observation {when} is no longer stored; the oldest one is from {instant(self.oldest)} UTC"


def requested_observation(
    connection: Connection, viewer: Caller, at: str | None
) -> tuple[int | None, Past | None]:
    """Return what `requested_position` does, for a page of observations. Raises NoSuchPosition.

    Tenants get the position of the newest of their own events up to the one that they request: when others did
    something, and where the log ends, is not for them to know.
    """
    position, past = requested_position(connection, viewer, at)
    tenants = tenants_read(viewer)
    if position is None or tenants is None:
        return position, past
    return newest_up_to(connection, position, tenants), past


def past_observation(connection: Connection, viewer: Caller, position: int | None) -> PastObservation | None:
    """Return the observation for such a position; None for a page of now."""
    if position is None:
        return None
    snapshot = snapshot_before(connection, _moment(connection, position))
    return PastObservation(
        snapshot=snapshot, oldest=oldest_snapshot(connection), is_own=tenants_read(viewer) is not None
    )


def milliseconds_of(connection: Connection, position: int) -> float:
    """Return when the event at a position was appended, in Kafka's milliseconds; 0 before the first event."""
    moment = _moment(connection, position)
    return 0 if moment is None else moment.timestamp() * 1000


def _moment(connection: Connection, position: int) -> datetime | None:
    return times_of(connection, [position]).get(position)
