"""Secrets that have to be used again, and so are kept sealed and not hashed.

By Fernet (AES-128-CBC and HMAC-SHA256) under a key of the setting `secrets_key`, one for each purpose, so that
what was sealed for one opens nothing of another. Who seals puts in whose secret it is, so that a row that is
moved to another owner opens nothing either.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr

from backend.domain.base.errors import StateConflict

SHORTEST_KEY = 32


def keys_of(setting: SecretStr | None) -> tuple[str, ...]:
    """The keys of the setting, separated by commas; none if unset. Raises StateConflict for one too short."""
    given = "" if setting is None else setting.get_secret_value()
    keys = tuple(key.strip() for key in given.split(",") if key.strip())
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise StateConflict(f"each key of TREELINE_SECRETS_KEY has {SHORTEST_KEY} characters or more, not as now")
    return keys


def keys_to_seal(setting: SecretStr | None, what: str) -> tuple[str, ...]:
    """`keys_of`, at least one; raises StateConflict that says how to set it. `what`: the secrets, in plural."""
    keys = keys_of(setting)
    if not keys:
        raise StateConflict(
            f"{what} cannot be kept: set TREELINE_SECRETS_KEY, for API and workers alike, "
            "to a secret of 32 characters or more, as `openssl rand -base64 32` gives"
        )
    return keys


def seal(purpose: bytes, whole: bytes, keys: Sequence[str]) -> str:
    """Sealed by the first key."""
    return _fernet(purpose, keys).encrypt(whole).decode()


def opened(purpose: bytes, sealed: str, keys: Sequence[str]) -> bytes | None:
    """What was sealed for this purpose; None if none of the keys opens it."""
    if not keys:
        return None
    try:
        return _fernet(purpose, keys).decrypt(sealed.encode())
    except InvalidToken:
        return None


def _fernet(purpose: bytes, keys: Sequence[str]) -> MultiFernet:
    # Keys are secrets of any form; Fernet wants 32 bytes.
    digests = (hashlib.sha256(purpose + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
