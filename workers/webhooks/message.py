"""Body of a delivery to a webhook's receiver, and the signature over it."""

from __future__ import annotations

import hashlib
import hmac
import json

from backend.eventlog.recorded import StoredEvent

SIGNATURE = "Treeline-Signature"
EVENT = "Treeline-Event"
KIND = "Treeline-Kind"
ATTEMPT = "Treeline-Attempt"


def body_of(event: StoredEvent, webhook: str, kind: str) -> bytes:
    """Return the JSON body, the same bytes for each attempt.

    `id` is the event's, by which receivers deduplicate.
    """
    whole = {
        "id": event_id(event.position),
        "webhook": webhook,
        "kind": kind,
        "position": event.position,
        "stream": event.stream,
        "name": event.name,
        "schema_version": event.schema_version,
        "time": event.time.isoformat(),
        "actor": event.metadata.actor,
        "request_id": event.metadata.request_id,
        "hash": event.hash,
        "data": event.data,
    }
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def event_id(position: int) -> str:
    """Return the event's globally unique id; positions are never used again."""
    return f"event-{position}"


def signature(secret: str, unix_seconds: int, body: bytes) -> str:
    """Return `t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">`.

    The time in it prevents replays of an old request by somebody who has seen it; receivers refuse requests that
    are older than five minutes.
    """
    signed = f"{unix_seconds}.".encode() + body
    return f"t={unix_seconds},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
