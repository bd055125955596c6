"""The scheme of a URL; certificate checks and secure cookies depend on it."""

from __future__ import annotations

from urllib.parse import urlsplit


def scheme_of(url: str) -> str:
    """Return a URL's scheme in lower case: `HTTPS://` is https as well (RFC 3986, 3.1). Empty if it has none."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""
