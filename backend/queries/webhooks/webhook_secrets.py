"""Signing secrets of webhooks: sealed beside the event log, in a row that is deleted with the webhook."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.eventlog.tables import METADATA
from backend.queries.access import sealing

PREFIX = "whsec_"
"""Prefix of Standard Webhooks, by which programs that search texts for secrets find it."""
_PURPOSE = b"treeline: secrets of webhooks\n"

webhook_secrets = sa.Table(
    "webhook_secrets",
    METADATA,
    sa.Column("webhook", sa.Text, primary_key=True),
    sa.Column("sealed", sa.Text, nullable=False),
)


def new_secret() -> str:
    """Return 256 random bits in the form of Standard Webhooks: the prefix and base64.

    The key of `Treeline-Signature` is the whole text's bytes, that of `webhook-signature` the decoded bits.
    """
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def keep_secret(connection: Connection, webhook: str, secret: str, setting: SecretStr | None) -> None:
    """Store a secret in place of the one before. Raises StateConflict if the setting has no key to seal it."""
    keys = sealing.keys_to_seal(setting, "secrets of webhooks")
    sealed = sealing.encrypted(_PURPOSE, json.dumps([webhook, secret]).encode(), keys)
    new = insert(webhook_secrets).values(webhook=webhook, sealed=sealed)
    connection.execute(new.on_conflict_do_update(index_elements=["webhook"], set_={"sealed": sealed}))


def secret_of(connection: Connection, webhook: str, keys: Sequence[str]) -> str | None:
    """Return the secret, or None.

    None if it is no longer stored, or was sealed by another key: then it is rotated.
    """
    query = sa.select(webhook_secrets.c.sealed).where(webhook_secrets.c.webhook == webhook)
    sealed = connection.execute(query).scalar_one_or_none()
    decrypted = None if sealed is None else sealing.decrypted(_PURPOSE, sealed, keys)
    if decrypted is None:
        return None
    whose, secret = json.loads(decrypted)
    return str(secret) if whose == webhook else None


def forget_secret(connection: Connection, webhook: str) -> None:
    """Delete the secret of a deleted webhook."""
    connection.execute(sa.delete(webhook_secrets).where(webhook_secrets.c.webhook == webhook))
