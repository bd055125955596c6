"""Passwords of applications, sealed: clusters have to be given them again, so a hash would not do.

Kept beside the event log, in a row that goes with the credentials. A row is sealed by Fernet (AES-128-CBC and
HMAC-SHA256) under a key of the setting `secrets_key`, together with whose password it is and which, so that a row
moved to another application opens nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence

import sqlalchemy as sa
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

from backend.domain.errors import StateConflict
from backend.eventlog.tables import METADATA

SHORTEST_KEY = 32
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


def keys_of(setting: SecretStr | None) -> tuple[str, ...]:
    """The keys of the setting, separated by commas; none if unset. Raises StateConflict for one too short."""
    given = "" if setting is None else setting.get_secret_value()
    keys = tuple(key.strip() for key in given.split(",") if key.strip())
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise StateConflict(f"each key of TREELINE_SECRETS_KEY has {SHORTEST_KEY} characters or more, not as now")
    return keys


def keys_to_seal(setting: SecretStr | None) -> tuple[str, ...]:
    """`keys_of`, at least one; raises StateConflict that says how to set it."""
    keys = keys_of(setting)
    if not keys:
        raise StateConflict(
            "passwords of applications cannot be kept: set TREELINE_SECRETS_KEY, for API and workers alike, "
            "to a secret of 32 characters or more, as `openssl rand -base64 32` gives"
        )
    return keys


def new_password() -> str:
    """43 URL-safe characters, 256 bits."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


def keep_password(connection: Connection, principal: str, number: int, given: str, keys: Sequence[str]) -> None:
    """Keep an application's password in the place of the one before, sealed by the first key."""
    whole = json.dumps([principal, number, given]).encode()
    values = {"number": number, "sealed": _fernet(keys).encrypt(whole).decode()}
    new = insert(application_secrets).values(principal=principal, **values)
    connection.execute(new.on_conflict_do_update(index_elements=["principal"], set_=values))


def password(connection: Connection, principal: str, number: int, keys: Sequence[str]) -> str | None:
    """The password of this number (`keys` as `keys_of` gives them). None if it is kept no more, or was sealed by a
    key that is none of these: then only new credentials help."""
    s = application_secrets.c
    query = sa.select(s.sealed).where(s.principal == principal, s.number == number)
    sealed = connection.execute(query).scalar_one_or_none()
    if sealed is None or not keys:
        return None
    try:
        whole = json.loads(_fernet(keys).decrypt(sealed.encode()))
    except InvalidToken:
        return None
    found: str = whole[2]
    return found if whole[:2] == [principal, number] else None


def forget_password(connection: Connection, principal: str) -> None:
    """What was revoked, or whose application is gone, is of no use any more."""
    connection.execute(sa.delete(application_secrets).where(application_secrets.c.principal == principal))


def _fernet(keys: Sequence[str]) -> MultiFernet:
    # Keys are secrets of any form; Fernet wants 32 bytes.
    digests = (hashlib.sha256(_PURPOSE + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
