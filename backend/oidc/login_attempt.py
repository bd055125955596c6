"""A login that a browser has begun: one random cookie, from which all values are derived that its end needs.

So nothing is stored for an unauthenticated browser, and an answer is accepted from the same browser only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

_LONGEST = 200


@dataclass(frozen=True)
class LoginAttempt:
    """A login in progress. `secret` stays in the browser's cookie."""

    secret: str

    @classmethod
    def new(cls) -> LoginAttempt:
        """Begin a login, with 256 random bits."""
        return cls(secrets.token_urlsafe(32))

    @classmethod
    def of_cookie(cls, value: str | None) -> LoginAttempt | None:
        """Read a login from its cookie; None without one."""
        return cls(value) if value and len(value) <= _LONGEST and value.isascii() else None

    @property
    def state(self) -> str:
        """Return the state, which comes back with the code and shows that this browser began the login."""
        return self._made("state")

    @property
    def nonce(self) -> str:
        """Return the nonce, which comes back within the ID token: the token was made for this login."""
        return self._made("nonce")

    @property
    def verifier(self) -> str:
        """Return the verifier, sent with the code: an intercepted code alone is of no use (PKCE)."""
        return self._made("verifier")

    @property
    def challenge(self) -> str:
        """Return the challenge, which commits to the verifier (RFC 7636, S256)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def is_state(self, given: str) -> bool:
        """Tell whether a text is this login's state."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.state.encode())

    def _made(self, what: str) -> str:
        return _text(hmac.new(self.secret.encode(), what.encode(), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
