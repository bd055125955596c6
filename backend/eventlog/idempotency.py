"""The first answer to a request with an Idempotency-Key, stored for repeated requests.

Only answers of successful commands are stored: a failed command changed nothing, and may be tried again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.eventlog.faults import IdempotencyKeyReused
from backend.eventlog.tables import idempotency_keys

KEEP = timedelta(days=7)


@dataclass(frozen=True)
class IdempotencyKey:
    """Idempotency key as sent, and a digest of method, path and body, so that one key stands for one request."""

    key: str
    digest: str


@dataclass(frozen=True)
class Answer:
    """An answer as the caller got it: HTTP status, headers worth repeating (ETag, Location), JSON body."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    shown_once: Mapping[str, Any] = field(default_factory=dict)
    """Secrets: fields of the body that only the first answer contains. They are not stored, so repeats return
    `body`."""


def recall(connection: Connection, actor: str, key: IdempotencyKey) -> Answer | None:
    """Return the first answer to this request, or None; raises IdempotencyKeyReused if the key named another."""
    row = connection.execute(
        sa.select(idempotency_keys).where(idempotency_keys.c.actor == actor, idempotency_keys.c.key == key.key)
    ).one_or_none()
    if row is None:
        return None
    if row.digest != key.digest:
        raise IdempotencyKeyReused("Use a new key for a new request, or send exactly the first request again.")
    return Answer(row.status, json.loads(row.body), json.loads(row.headers))


def remember(connection: Connection, actor: str, key: IdempotencyKey, answer: Answer, time: datetime) -> None:
    """Store an answer in the transaction of its command, and delete those older than `KEEP`."""
    connection.execute(sa.delete(idempotency_keys).where(idempotency_keys.c.time < time - KEEP))
    connection.execute(
        sa.insert(idempotency_keys).values(
            actor=actor,
            key=key.key,
            digest=key.digest,
            status=answer.status,
            headers=json.dumps(dict(answer.headers)),
            body=json.dumps(answer.body),
            time=time,
        )
    )
