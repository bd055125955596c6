"""What an address is spoken to over: whether certificates are checked, and cookies kept to TLS, hangs on it."""

from __future__ import annotations

from urllib.parse import urlsplit


def scheme_of(url: str) -> str:
    """A URL's scheme in small letters: `HTTPS://` is https as well (RFC 3986, 3.1). Empty if it has none."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""
