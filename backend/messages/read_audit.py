"""Audit of reads: each request for messages is a row, written before anything is read.

If the row cannot be written, nothing is read: DatabaseUnavailable reaches the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Engine

from backend.domain.access.access import Provenance
from backend.eventlog.provenance import current
from backend.messages.facts import MessageFacts
from backend.messages.request import MessageRequest
from backend.queries.access import logins
from backend.queries.access.logins import LoginKind

LONGEST_START = 200
"""Characters of `from` in a row: a start can name hundreds of partitions. Filters are never cut."""
MOST_NAMED = 20
"""Partitions that a row names one by one."""
TAIL_WITHIN = timedelta(hours=1)
"""Time within which equal live tails of one user are one row: browsers open a broken one again by themselves."""
_NOWHERE = Provenance("", "", "")


def note_read(engine: Engine, user: str, facts: MessageFacts, wanted: MessageRequest) -> None:
    """Record that a user reads messages, from where the present request comes. Raises DatabaseUnavailable."""
    came_from = current() or _NOWHERE
    said, tenant = _said(facts, wanted), facts.stream.tenant
    with engine.begin() as connection:
        logins.record(connection, LoginKind.MESSAGES, user, came_from.means, came_from, said, tenant)


def note_tail(engine: Engine, user: str, facts: MessageFacts, wanted: MessageRequest) -> None:
    """Record that a user follows new messages, unless a row says so already. Raises DatabaseUnavailable."""
    said, tenant = f"{_said(facts, wanted)}, live", facts.stream.tenant
    with engine.begin() as connection:
        logins.record_once(
            connection, LoginKind.MESSAGES, user, current() or _NOWHERE, said, tenant, within=TAIL_WITHIN
        )


def _said(facts: MessageFacts, wanted: MessageRequest) -> str:
    start = wanted.start_text
    if len(start) > LONGEST_START:
        start = f"{start[: LONGEST_START - 1]}…"
    where = [f"{facts.stream} on {facts.cluster}", _named(wanted.partitions(facts))]
    text = ", ".join([*where, *(f"filter {each}" for each in wanted.filter_texts), f"from {start}"])
    # What a caller sent may be no text that the database stores, or one that a page shows as something else.
    return "".join(each if each.isprintable() else "?" for each in text)


def _named(partitions: Sequence[int]) -> str:
    """Return the partitions, which ascend, in few words."""
    first, last = partitions[0], partitions[-1]
    if first == last:
        return f"partition {first}"
    if last - first == len(partitions) - 1:
        return f"partitions {first} to {last}"
    more = len(partitions) - MOST_NAMED
    return f"partitions {', '.join(map(str, partitions[:MOST_NAMED]))}{f' and {more} more' if more > 0 else ''}"
