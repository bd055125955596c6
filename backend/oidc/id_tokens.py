"""Validation of ID tokens: a signature by one of the provider's keys, and the token's claims.

OpenID Connect Core 1.0, 3.1.3.7. Only signatures by private keys count: if an algorithm with a shared secret were
allowed, anybody with the public key could sign (RFC 8725, 3.1), and `none` is no signature.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import GuestProtocol, Key, KeySet

from backend.domain.base.errors import DomainError
from backend.oidc.errors import ProviderAway, ProviderRefused

logger = structlog.get_logger(__name__)

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
LEEWAY_SECONDS = 60
"""Allowed difference between the provider's clock and ours."""
KEYS_SECONDS = 3600.0
"""Seconds after which keys are read again, so that a key that the provider withdrew is not trusted for ever."""
RELOAD_SECONDS = 30.0
"""Seconds between two reads of keys because of an unknown one."""
AGAIN_SECONDS = 5.0
"""Seconds for which, after keys could not be read, requests fail at once."""


class Keys:
    """A provider's public keys; `fetch` reads them again. Threads may share them."""

    def __init__(self, fetch: Callable[[], Mapping[str, Any]]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: list[Key] = []
        self._read_at = self._failed_at = float("-inf")

    def find(self, kid: str | None) -> Key:
        """Return the key with this id; without an id the only one. Raises ProviderRefused, ProviderAway."""
        with self._lock:
            if time.monotonic() - self._read_at > KEYS_SECONDS:
                self._read()
            found = self._found(kid)
            if found is None and time.monotonic() - self._read_at > RELOAD_SECONDS:
                self._read()
                found = self._found(kid)
        if found is None:
            raise ProviderRefused("its token is signed by an unknown key")
        return found

    def _found(self, kid: str | None) -> Key | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _read(self) -> None:
        if time.monotonic() - self._failed_at <= AGAIN_SECONDS:
            raise ProviderAway("Its keys could not be read a moment ago.")
        try:
            self._keys = _public(self._fetch())
        except DomainError:
            self._failed_at = time.monotonic()
            raise
        self._read_at = time.monotonic()


def _public(document: Mapping[str, Any]) -> list[Key]:
    """Return the keys that can sign. A key that is not understood is ignored (RFC 7517, 5): others still work."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderRefused("its keys cannot be read")
    found: list[Key] = []
    for key in listed:
        try:
            if key.get("kty") in KEY_TYPES and key.get("use") != "enc":
                found += KeySet.import_key_set({"keys": [key]})
        except (JoseError, KeyError, TypeError, AttributeError, ValueError) as error:
            logger.warning("key of the login provider ignored", reason=str(error))
    return found


def claims_of(token: object, keys: Keys, *, issuer: str, client_id: str, nonce: str) -> dict[str, Any]:
    """Return an ID token's claims. Raises ProviderRefused for its first fault; ProviderAway."""

    def key_of(token: GuestProtocol) -> Key:
        return keys.find(token.headers().get("kid"))

    if not isinstance(token, str):
        raise ProviderRefused("it sent no ID token")
    wanted = jwt.JWTClaimsRegistry(
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        claims = jwt.decode(token, key_of, algorithms=ALGORITHMS).claims
        wanted.validate(claims)
    except ExpiredTokenError as error:
        raise ProviderRefused("its ID token has expired; check both clocks") from error
    except (JoseError, ValueError, TypeError) as error:
        claim = getattr(error, "claim", None)
        what = (
            f"its ID token's {claim} is wrong or missing" if claim else "the signature of its ID token is invalid"
        )
        raise ProviderRefused(what) from error
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    # A token for several audiences names the client that requested it.
    if client_id not in audience or claims.get("azp", client_id if len(audience) == 1 else None) != client_id:
        raise ProviderRefused("its ID token was issued for another client")
    return dict(claims)
