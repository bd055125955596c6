"""HTTP requests to a provider, limited in time, size and destination."""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from backend.oidc.errors import ProviderAway, ProviderRefused
from backend.url_schemes import scheme_of

MOST_BYTES = 1 << 20
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CODE = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True)
class ProviderHttp:
    """Sends requests to a provider. `plain`: also over HTTP, to a provider on this machine."""

    seconds: float
    plain: bool
    ca_file: str | None = None

    def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, login: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at an address, or the answer to a form.

        Raises ProviderAway for no answer, ProviderRefused for one that refuses.
        """
        if not is_safe(url, plain=self.plain):
            raise ProviderRefused("it gave an address that is not https")
        deadline = time.monotonic() + self.seconds
        try:
            # Redirects are not followed: secrets are only sent to the named address.
            with (
                httpx2.Client(trust_env=False, timeout=self.seconds, verify=self._certificates(url)) as client,
                client.stream(
                    "GET" if form is None else "POST",
                    url,
                    data=None if form is None else dict(form),
                    auth=login,
                    headers={"Accept": "application/json"},
                ) as response,
            ):
                body = b""
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise ProviderRefused(f"its answer is larger than {MOST_BYTES} bytes")
                    if time.monotonic() > deadline:
                        raise ProviderAway(f"It took longer than {self.seconds:g} s.")
                status = response.status_code
        except httpx2.TimeoutException as error:
            raise ProviderAway(f"It took longer than {self.seconds:g} s.") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ProviderAway("It does not answer.") from error
        return _document(status, body)

    def _certificates(self, url: str) -> ssl.SSLContext | bool:
        if scheme_of(url) == "http":
            return False
        return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True


def is_safe(url: object, *, plain: bool) -> bool:
    """Tell whether secrets may be sent to a URL: over TLS, or within this machine if `plain` allows it."""
    if not isinstance(url, str) or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username or not parts.hostname or parts.fragment:
        return False
    return parts.scheme == "https" or (plain and parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _document(status: int, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if status >= 500:
        raise ProviderAway(f"It answered {status}.")
    if status != 200 or not isinstance(found, dict):
        why = found.get("error") if isinstance(found, dict) else None
        raise ProviderRefused(f"it answered {error_code(why) or status}")
    return found


def error_code(text: object) -> str:
    """Return an error code of OAuth; empty for any other value."""
    return text if isinstance(text, str) and _CODE.fullmatch(text) else ""
