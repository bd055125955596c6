"""Who calls, and under which request id: what the REST API and the registries ask of every request alike."""

from __future__ import annotations

import hmac
import re
import uuid

from pydantic import SecretStr

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id(given: str) -> str:
    """The caller's own, if it is one, else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())


def is_token(given: str, token: SecretStr | None) -> bool:
    """Whether this is the token; nothing is while there is none."""
    if token is None or not token.get_secret_value():
        return False
    # Constant time: how long a comparison takes must not tell how much of a guess was right.
    return hmac.compare_digest(given.strip().encode(), token.get_secret_value().encode())
