"""Body and headers of a webhook's request: the event as JSON, and two signatures of it.

`Treeline-Signature` has Stripe's form. `webhook-signature` is that of Standard Webhooks (standardwebhooks.com),
which libraries in most languages verify.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from datetime import UTC, datetime

from standardwebhooks import Webhook

from backend.eventlog.recorded import StoredEvent
from backend.queries.webhooks.webhook_secrets import PREFIX

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


def standard_headers(secret: str, message_id: str, unix_seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks; none for a secret of before them, which is not base64.

    A receiver verifies them with the secret as it was shown and any library of Standard Webhooks.
    """
    encoded = secret.removeprefix(PREFIX)
    try:
        base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return {}
    signed = Webhook(secret).sign(message_id, datetime.fromtimestamp(unix_seconds, UTC), body.decode())
    return {"webhook-id": message_id, "webhook-timestamp": str(unix_seconds), "webhook-signature": signed}
