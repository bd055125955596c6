"""What pages of an earlier position say of when that was seen which they show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from backend.domain.access import Caller, tenants_read
from backend.queries.events import time_of
from backend.queries.past import Look, look_before, oldest_look
from backend.web.figures import instant
from backend.web.switch_words import span


@dataclass(frozen=True, kw_only=True)
class SeenThen:
    """The look that a page of an earlier position shows; None if none of then is kept."""

    look: Look | None
    oldest: datetime | None
    """Of all that are kept."""

    @property
    def sentence(self) -> str:
        if self.look is not None:
            before = span(1000 * self.look.seconds_before)
            return f"what was seen at {instant(self.look.at)} UTC, {before} before it"
        if self.oldest is None:
            return "what was observed then is not kept, since no worker has looked yet"
        return f"what was observed then is not kept; it is from {instant(self.oldest)} UTC on"


def seen_then(connection: Connection, viewer: Caller, position: int | None) -> SeenThen | None:
    """None for a page of now."""
    if position is None:
        return None
    look = look_before(connection, moment_of(connection, viewer, position))
    return SeenThen(look=look, oldest=oldest_look(connection))


def moment_of(connection: Connection, viewer: Caller, position: int) -> datetime | None:
    """When a position's event was appended; for a tenant, the newest of its own up to it: the times of others'
    events, and where they end, are nothing for it. None before the first one."""
    return time_of(connection, position, tenants_read(viewer))


def milliseconds_of(connection: Connection, viewer: Caller, position: int) -> float:
    """The same as times of Kafka's: 0 before the first event."""
    moment = moment_of(connection, viewer, position)
    return 0 if moment is None else moment.timestamp() * 1000
