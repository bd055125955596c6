"""Passwords of applications, encrypted, not hashed: clusters have to be given them again.

They are stored beside the event log, in a row that is deleted with the credentials. A row is sealed by Fernet
(AES-128-CBC and HMAC-SHA256) under a key of the setting `secrets_key`, together with its owner and number, so that
a row moved to another application cannot be opened.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.eventlog.tables import METADATA
from backend.queries.access import sealing

PASSWORD_BYTES = 32
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_PURPOSE = b"treeline: passwords of applications\n"

application_secrets = sa.Table(
    "application_secrets",
    METADATA,
    sa.Column("principal", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("sealed", sa.Text, nullable=False),
)


def keys_to_seal(setting: SecretStr | None) -> tuple[str, ...]:
    """Return `sealing.keys_of`, at least one; raises StateConflict that says how to set it."""
    return sealing.keys_to_seal(setting, "passwords of applications")


def new_password() -> str:
    """Return a new password: 43 URL-safe characters, 256 bits."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def keep_password(connection: Connection, principal: str, number: int, given: str, keys: Sequence[str]) -> None:
    """Store an application's password, sealed by the first key, in place of the one before."""
    whole = json.dumps([principal, number, given]).encode()
    values = {"number": number, "sealed": sealing.encrypted(_PURPOSE, whole, keys)}
    new = insert(application_secrets).values(principal=principal, **values)
    connection.execute(new.on_conflict_do_update(index_elements=["principal"], set_=values))


def password(connection: Connection, principal: str, number: int, keys: Sequence[str]) -> str | None:
    """Return the password of this number. `keys`: those of `sealing.keys_of`.

    None if it is no longer stored, or was sealed by another key: then only new credentials help.
    """
    s = application_secrets.c
    query = sa.select(s.sealed).where(s.principal == principal, s.number == number)
    sealed = connection.execute(query).scalar_one_or_none()
    decrypted = None if sealed is None else sealing.decrypted(_PURPOSE, sealed, keys)
    if decrypted is None:
        return None
    whole = json.loads(decrypted)
    found: str = whole[2]
    return found if whole[:2] == [principal, number] else None


def forget_password(connection: Connection, principal: str) -> None:
    """Delete the password of an application that is deleted, or whose credentials were revoked."""
    connection.execute(sa.delete(application_secrets).where(application_secrets.c.principal == principal))
