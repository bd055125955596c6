"""Secrets that must be used again, and are therefore encrypted ("sealed"), not hashed.

Sealed by Fernet (AES-128-CBC and HMAC-SHA256) under a key derived from the setting `secrets_key`, one for each
purpose, so that what was sealed for one purpose cannot be opened for another. The sealed text includes the owner,
so that a row that is moved to another owner cannot be opened either.
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
    """Return the keys of the setting, separated by commas; none if unset. Raises StateConflict for a short one."""
    given = "" if setting is None else setting.get_secret_value()
    keys = tuple(key.strip() for key in given.split(",") if key.strip())
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise StateConflict(
            f"a key of TREELINE_SECRETS_KEY is too short: each must have {SHORTEST_KEY} characters or more"
        )
    return keys


def keys_to_seal(setting: SecretStr | None, what: str) -> tuple[str, ...]:
    """Return `keys_of`, at least one; raises StateConflict that says how to set it.

    `what`: the secrets, in plural.
    """
    keys = keys_of(setting)
    if not keys:
        raise StateConflict(
            f"{what} cannot be stored: set TREELINE_SECRETS_KEY, for API and workers alike, "
            "to a secret of 32 characters or more, as `openssl rand -base64 32` gives"
        )
    return keys


def encrypted(purpose: bytes, whole: bytes, keys: Sequence[str]) -> str:
    """Encrypt a text with the first key."""
    return _fernet(purpose, keys).encrypt(whole).decode()


def decrypted(purpose: bytes, sealed: str, keys: Sequence[str]) -> bytes | None:
    """Decrypt what was sealed for this purpose; None if no key fits."""
    if not keys:
        return None
    try:
        return _fernet(purpose, keys).decrypt(sealed.encode())
    except InvalidToken:
        return None


def _fernet(purpose: bytes, keys: Sequence[str]) -> MultiFernet:
    # Keys are secrets of any form; Fernet requires 32 bytes.
    digests = (hashlib.sha256(purpose + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
