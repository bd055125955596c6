"""Checks ahead of everything else: the Host header is an allowed one, headers have bounded size.

A page of another site can have its own name resolve to this machine (DNS rebinding): the browser then takes our
responses for that site's. Such a request names the other site in Host.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.settings import Settings

MOST_HEADERS = 100
MOST_HEADER_BYTES = 32 << 10


class HostCheck:
    """The outermost layer of the application, before registries, API and pages."""

    def __init__(self, app: ASGIApp, config: Settings) -> None:
        self._app = app
        self._hosts = AllowedHosts(config.allowed_hosts, config.url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope) if scope["type"] == "http" else None
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
            detail = f"a request has at most {MOST_HEADERS} headers of {MOST_HEADER_BYTES} bytes together"
            return _problem(431, "headers-too-large", "Request Header Fields Too Large", detail)
        given = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(given) > 1 or not all(map(self._hosts.allow, given)):
            detail = (
                "the Host header of this request names another site; use an IP address, the host of "
                "TREELINE_URL, or a name listed in TREELINE_ALLOWED_HOSTS"
            )
            return _problem(421, "host-not-allowed", "Misdirected Request", detail)
        return None


class AllowedHosts:
    """The set of allowed values of the Host header."""

    def __init__(self, listed: list[str], url: str | None) -> None:
        own = urlsplit(url).hostname if url else None
        self._names = {name.lower().rstrip(".") for name in listed} | ({own} if own else set())

    def allow(self, host: str) -> bool:
        """Return whether a request may name this host, with or without a port.

        Addresses are allowed, since no other site's page has one for its name. So are names without a dot, which
        no public site has: `localhost`, and services of a container network.
        """
        name = _name_of(host)
        if "*" in self._names or name in self._names or _is_address(name):
            return True
        if any(each.startswith("*.") and name.endswith(each[1:]) for each in self._names):
            return True
        return bool(name) and "." not in name


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _problem(status: int, slug: str, title: str, detail: str) -> JSONResponse:
    document = {"type": f"urn:treeline:{slug}", "title": title, "status": status, "detail": detail, "errors": []}
    return JSONResponse(document, status, media_type="application/problem+json")
