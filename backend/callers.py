"""Callers of API, pages and registries: request ids, provenance, and the HTTP status of refusals."""

from __future__ import annotations

import hmac
import re
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from backend.domain.access.access import Provenance
from backend.domain.base.errors import Kind
from backend.domain.webhooks.denied_networks import is_loopback

STATUS = {
    Kind.INVALID: 422,
    Kind.CONFLICT: 409,
    Kind.UNKNOWN: 404,
    Kind.STALE: 412,
    Kind.FORBIDDEN: 403,
    Kind.UNAVAILABLE: 503,
}
"""HTTP status of each kind of error."""
UNGUESSABLE_CHARACTERS = 32
"""Length from which a token cannot be guessed: Treeline's own tokens have it, one of the settings may have."""
LONGEST_AGENT = 200
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id(given: str) -> str:
    """Return the request id that the caller gave, if it is valid, else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())


def provenance_of(scope: Mapping[str, Any], means: str) -> Provenance:
    """Return where a request (its ASGI scope) comes from, for the audit."""
    agent = next((value for name, value in scope["headers"] if name == b"user-agent"), b"").decode("latin-1")
    plain = "".join(character if character.isprintable() else "?" for character in agent[:LONGEST_AGENT])
    return Provenance(means, scope["client"][0] if scope.get("client") else "?", plain)


def is_on_this_machine(scope: Mapping[str, Any]) -> bool:
    """Return whether a request (its ASGI scope) comes from a program of this machine, by a loopback address.

    One that a proxy has passed on does not: the proxy may listen to everybody.
    """
    ends = (scope.get("server"), scope.get("client"))
    if not all(end and is_loopback(str(end[0])) for end in ends):
        return False
    return not any(name.startswith((b"x-forwarded-", b"forwarded")) for name, _ in scope["headers"])


def is_token(given: str, token: SecretStr | None) -> bool:
    """Tell whether a text is the token; False while there is no token."""
    if token is None or not token.get_secret_value():
        return False
    # Constant time: the duration of a comparison must not reveal how much of a guess is right.
    return hmac.compare_digest(given.strip().encode(), token.get_secret_value().encode())
