"""A login that a browser has begun: one random cookie, of which all is made that has to be known at its end.

So nothing is kept here for who is not known yet, and what comes back is taken from the same browser only.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

_LONGEST = 200


@dataclass(frozen=True)
class Begun:
    """`secret` stays in the browser's cookie."""

    secret: str

    @classmethod
    def new(cls) -> Begun:
        """Of 256 random bits."""
        return cls(secrets.token_urlsafe(32))

    @classmethod
    def of_cookie(cls, value: str | None) -> Begun | None:
        """As the cookie has it; None without one."""
        return cls(value) if value and len(value) <= _LONGEST and value.isascii() else None

    @property
    def state(self) -> str:
        """Comes back with the code: who has another cookie did not begin this."""
        return self._made("state")

    @property
    def nonce(self) -> str:
        """Comes back within the ID token: it was made for this login."""
        return self._made("nonce")

    @property
    def verifier(self) -> str:
        """Sent with the code: who has caught only the code has not begun this (PKCE)."""
        return self._made("verifier")

    @property
    def challenge(self) -> str:
        """What is said of the verifier before (RFC 7636, S256)."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def is_state(self, given: str) -> bool:
        """Whether this is the state."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.state.encode())

    def _made(self, what: str) -> str:
        return _text(hmac.new(self.secret.encode(), what.encode(), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
