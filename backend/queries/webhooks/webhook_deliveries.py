"""Deliveries to webhooks and their results: rows that workers write, no events.

    (event) --queue--> pending --begin--> pending, due again --delivered--> delivered
                          ^                      |
                          +----- failed_once ----+------> failed        --send_again--> pending

A row is begun before anything is sent, and is due again some time later: a process that dies in between loses
nothing, and sends it twice at worst. All times are the database's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.webhooks.webhook import KIND_OF_EVENT, TEST, WebhookTested, event_stream
from backend.eventlog.tables import METADATA, events
from backend.projections import runner
from backend.projections.temporal import as_of
from backend.projections.webhooks import PROJECTION, webhooks

PENDING, DELIVERED, FAILED = STATES = ("pending", "delivered", "failed")
KEPT_DAYS = 30
"""Days for which delivered and failed deliveries are kept."""
_AT_ONCE = 20_000
_NOW = sa.func.clock_timestamp()

webhook_cursors = sa.Table(
    "webhook_cursors",
    METADATA,
    sa.Column("webhook", sa.Text, primary_key=True),
    sa.Column("created", sa.BigInteger, primary_key=True, autoincrement=False),
    # All events up to here that it should receive are in `webhook_deliveries`, or were.
    sa.Column("position", sa.BigInteger, nullable=False),
)
webhook_deliveries = sa.Table(
    "webhook_deliveries",
    METADATA,
    sa.Column("webhook", sa.Text, primary_key=True),
    sa.Column("created", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("tried_at", sa.DateTime(timezone=True)),
    sa.Column("ended_at", sa.DateTime(timezone=True)),
    sa.Column("status", sa.Integer),
    sa.Column("problem", sa.Text),
)
sa.Index(
    "webhook_deliveries_due",
    *(webhook_deliveries.c[name] for name in ("webhook", "created", "due_at")),
    postgresql_where=sa.text("state = 'pending'"),
)
sa.Index("webhook_deliveries_ended", webhook_deliveries.c.ended_at)
sa.Index(
    "webhook_deliveries_results",
    *(webhook_deliveries.c[name] for name in ("webhook", "created", "state", "ended_at")),
    postgresql_where=sa.text("ended_at IS NOT NULL"),
)
_d, _w = webhook_deliveries.c, webhooks.c
_OF_ITS_WEBHOOK = sa.and_(_w.name == _d.webhook, _w.created == _d.created, as_of(webhooks, None))


@dataclass(frozen=True)
class DeliveryRow:
    """Delivery of one event to one webhook. `position`: the event's; `due_at`: the next attempt, while pending."""

    position: int
    kind: str
    state: str
    attempts: int
    queued_at: datetime
    due_at: datetime
    tried_at: datetime | None
    ended_at: datetime | None
    status: int | None
    problem: str | None


@dataclass(frozen=True)
class Begun:
    """An attempt that is to be made now."""

    webhook: str
    created: int
    position: int
    kind: str
    attempt: int
    """Number of the attempt, from 1."""
    url: str


# --- reading


def list_deliveries(
    connection: Connection, webhook: str, *, before: int | None = None, at: int | None = None, limit: int = 50
) -> list[DeliveryRow]:
    """Return the deliveries of a webhook, the newest event first; none for an unknown webhook.

    `before`: only below this position; `at`: only this position.
    """
    d = _d
    query = sa.select(*(d[name] for name in DeliveryRow.__dataclass_fields__)).join(webhooks, _OF_ITS_WEBHOOK)
    query = query.where(d.webhook == webhook)
    if before is not None:
        query = query.where(d.position < before)
    if at is not None:
        query = query.where(d.position == at)
    return [DeliveryRow(*row) for row in connection.execute(query.order_by(d.position.desc()).limit(limit))]


def is_known(connection: Connection, webhook: str, position: int) -> bool:
    """Tell whether the event of a position was queued for a webhook, and is not deleted yet."""
    query = sa.select(_d.position).join(webhooks, _OF_ITS_WEBHOOK)
    query = query.where(_d.webhook == webhook, _d.position == position)
    return connection.execute(query).one_or_none() is not None


def count_states(connection: Connection) -> dict[str, dict[str, int]]:
    """Count the deliveries of each webhook by state; absent states are 0."""
    names = connection.execute(sa.select(_w.name).where(as_of(webhooks, None)).order_by(_w.name)).scalars()
    found = {name: dict.fromkeys(STATES, 0) for name in names}
    query = sa.select(_d.webhook, _d.state, sa.func.count()).join(webhooks, _OF_ITS_WEBHOOK)
    for webhook, state, number in connection.execute(query.group_by(_d.webhook, _d.state)):
        found[webhook][state] = number
    return found


# --- queueing


def queue(connection: Connection) -> None:
    """Queue the events that webhooks should receive, each from its cursor on, in pieces of the log.

    A webhook's kinds and state at the event's position decide, not the present ones.
    """
    # Not the log's head: webhooks' settings are known up to here.
    head = runner.positions(connection, [PROJECTION])[PROJECTION.name]
    cursor = sa.func.coalesce(webhook_cursors.c.position, _w.created)
    of = sa.and_(webhook_cursors.c.webhook == _w.name, webhook_cursors.c.created == _w.created)
    known = sa.select(_w.name, _w.created, cursor.label("position")).outerjoin(webhook_cursors, of)
    behind = connection.execute(known.where(as_of(webhooks, None), cursor < head).order_by(_w.name)).all()
    for webhook, created, position in behind:
        reached = min(head, position + _AT_ONCE)
        _queue_of(connection, webhook, created, position, reached)
        values = {"webhook": webhook, "created": created, "position": reached}
        moved = insert(webhook_cursors).values(values)
        # A worker that is behind must not move the cursor back; a delivery that is queued twice exists once.
        moved = moved.on_conflict_do_update(
            index_elements=["webhook", "created"],
            set_={"position": sa.func.greatest(webhook_cursors.c.position, moved.excluded.position)},
        )
        connection.execute(moved)


def _queue_of(connection: Connection, webhook: str, created: int, after: int, up_to: int) -> None:
    kind = sa.case(KIND_OF_EVENT, value=events.c.name)
    wanted = sa.or_(
        sa.and_(events.c.name.in_(KIND_OF_EVENT), _w.events.contains(sa.func.to_jsonb(kind))),
        sa.and_(events.c.name == WebhookTested.stored_name, events.c.stream == event_stream(webhook)),
    )
    then = sa.and_(
        _w.valid_from <= events.c.position, sa.or_(_w.valid_to.is_(None), _w.valid_to > events.c.position)
    )
    found = (
        sa.select(
            sa.literal(webhook),
            sa.literal(created),
            events.c.position,
            sa.func.coalesce(kind, TEST),
            sa.literal(PENDING),
            sa.literal(0),
            _NOW,
            _NOW,
        )
        .join(webhooks, then)
        .where(_w.name == webhook, _w.created == created, _w.enabled)
        .where(events.c.position > after, events.c.position <= up_to)
        .where(events.c.name.in_([*KIND_OF_EVENT, WebhookTested.stored_name]), wanted)
    )
    columns = ["webhook", "created", "position", "kind", "state", "attempts", "queued_at", "due_at"]
    connection.execute(insert(webhook_deliveries).from_select(columns, found).on_conflict_do_nothing())


def send_again(connection: Connection, webhook: str, position: int) -> None:
    """Make a delivery due at once, with all its attempts again."""
    again: Mapping[str, Any] = {
        "state": PENDING,
        "attempts": 0,
        "due_at": _NOW,
        "ended_at": None,
        "status": None,
        "problem": None,
    }
    these = sa.and_(_d.webhook == webhook, _d.position == position)
    connection.execute(sa.update(webhook_deliveries).where(these).values(**again))


def forget(connection: Connection, webhook: str) -> None:
    """Delete all deliveries of a webhook that was deleted."""
    for table in (webhook_deliveries, webhook_cursors):
        connection.execute(sa.delete(table).where(table.c.webhook == webhook))


def forget_old(connection: Connection) -> None:
    """Delete deliveries that ended long ago, and those queued for a webhook while it was being deleted."""
    old = _d.ended_at < _NOW - timedelta(days=KEPT_DAYS)
    orphan = ~sa.exists().where(_OF_ITS_WEBHOOK)
    connection.execute(sa.delete(webhook_deliveries).where(sa.or_(old, orphan)))


# --- sending


def webhooks_due(connection: Connection) -> list[str]:
    """Return enabled webhooks that have a delivery due."""
    query = sa.select(_d.webhook).distinct().join(webhooks, _OF_ITS_WEBHOOK).where(_due())
    return list(connection.execute(query).scalars())


def begin(connection: Connection, webhook: str, again_seconds: float) -> Begun | None:
    """Begin the next attempt for a webhook, in the order of events; None if nothing is due.

    The delivery is due again after `again_seconds` unless the attempt's result is recorded.
    """
    next_one = (
        sa.select(_d.webhook, _d.created, _d.position, _w.url)
        .join(webhooks, _OF_ITS_WEBHOOK)
        .where(_due(), _d.webhook == webhook)
        .order_by(_d.position)
        .limit(1)
        .with_for_update(of=webhook_deliveries, skip_locked=True)
    )
    found = connection.execute(next_one).one_or_none()
    if found is None:
        return None
    begun = sa.update(webhook_deliveries).where(_is(found.webhook, found.created, found.position))
    begun = begun.values(attempts=_d.attempts + 1, tried_at=_NOW, due_at=_NOW + timedelta(seconds=again_seconds))
    row = connection.execute(begun.returning(_d.kind, _d.attempts)).one()
    return Begun(found.webhook, found.created, found.position, row.kind, row.attempts, found.url)


def delivered(connection: Connection, begun: Begun, status: int) -> None:
    """Record that the receiver accepted the delivery."""
    _end(connection, begun, {"state": DELIVERED, "ended_at": _NOW, "status": status, "problem": None})


def failed_once(
    connection: Connection, begun: Begun, status: int | None, problem: str, again_seconds: float | None
) -> None:
    """Record a failed attempt. `again_seconds`: delay of the next one; None if it was the last."""
    values: dict[str, Any] = {"status": status, "problem": problem}
    if again_seconds is None:
        values |= {"state": FAILED, "ended_at": _NOW}
    else:
        values |= {"due_at": _NOW + timedelta(seconds=again_seconds)}
    _end(connection, begun, values)


def _end(connection: Connection, begun: Begun, values: Mapping[str, Any]) -> None:
    # Of two concurrent attempts the later one counts; so does a request to send it again meanwhile.
    same = sa.and_(_d.state == PENDING, _d.attempts == begun.attempt)
    these = _is(begun.webhook, begun.created, begun.position)
    connection.execute(sa.update(webhook_deliveries).where(these, same).values(**values))


def _due() -> ColumnElement[bool]:
    return sa.and_(_d.state == PENDING, _d.due_at <= _NOW, _w.enabled)


def _is(webhook: str, created: int, position: int) -> ColumnElement[bool]:
    return sa.and_(_d.webhook == webhook, _d.created == created, _d.position == position)
