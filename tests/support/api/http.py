"""HTTP clients for tests, with one shared TLS context.

A context per client would read all certificates anew, which takes as long as some tests.
"""

from __future__ import annotations

from typing import Any

import httpx2

_TLS = httpx2.create_ssl_context()
SECONDS = 30.0


def client(**settings: Any) -> httpx2.Client:
    """Return an httpx2.Client that ignores the environment's proxies."""
    return httpx2.Client(**{"trust_env": False, "timeout": SECONDS, "verify": _TLS} | settings)


def request(method: str, url: str, **settings: Any) -> httpx2.Response:
    """Send one request on a connection of its own, as httpx2.request does."""
    return httpx2.request(method, url, **{"trust_env": False, "timeout": SECONDS, "verify": _TLS} | settings)


def get(url: str, **settings: Any) -> httpx2.Response:
    return request("GET", url, **settings)


def post(url: str, **settings: Any) -> httpx2.Response:
    return request("POST", url, **settings)
