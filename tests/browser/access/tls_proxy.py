"""A reverse proxy with TLS and the headers that docs/howto/reverse-proxy.md has nginx send.

Names below `acme.example` lead to it: `treeline.` to the console, any other to a neighbour's site, which gives its
visitors cookies for all of `acme.example`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backend.estate.ports import free_ports
from tests.eventually import eventually

CONSOLE = "treeline.acme.example"
NEIGHBOUR = "shop.acme.example"
RESOLVED_HERE = "--host-resolver-rules=MAP *.acme.example 127.0.0.1"
"""Chromium's flag that resolves these names to this machine."""
_GIVEN_COOKIES = (b"treeline_session", b"__Host-treeline_session", b"\x85__Host-treeline_session")
# Of one connection, not of the forwarded request.
_NOT_PASSED = {b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"date", b"server"}


class TlsProxy:
    """Forwards all requests for CONSOLE to `upstream`, which is set before the first one."""

    def __init__(self, port: int) -> None:
        self.url = f"https://{CONSOLE}:{port}"
        self.neighbour = f"https://{NEIGHBOUR}:{port}"
        self.upstream = ""
        self.given = b""
        """Value of the cookies that the neighbour sets."""
        self.cookies: list[bytes] = []
        """Cookies that browsers sent to the console, request by request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        is_console = request.url.hostname == CONSOLE
        await (await self._passed(request) if is_console else self._neighbour())(scope, receive, send)

    async def _passed(self, request: Request) -> Response:
        assert request.client is not None
        own = {b"host", b"x-forwarded-for", b"x-forwarded-proto", b"connection", b"content-length"}
        headers = [(name, value) for name, value in request.headers.raw if name not in own]
        headers += [
            (b"host", request.headers["host"].encode()),
            (b"x-forwarded-for", request.client.host.encode()),
            (b"x-forwarded-proto", request.url.scheme.encode()),
        ]
        self.cookies.append(request.headers.get("cookie", "").encode("latin-1"))
        address = f"{self.upstream}{request.url.path}?{request.url.query}"
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            answer = await client.request(request.method, address, headers=headers, content=await request.body())
        passed = Response(answer.content, answer.status_code)
        passed.raw_headers += [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.lower() not in _NOT_PASSED | {b"content-encoding"}
        ]
        return passed

    def _neighbour(self) -> Response:
        answer = Response("a shop", media_type="text/plain")
        answer.raw_headers += [
            (b"set-cookie", b"%b=%b; Domain=acme.example; Path=/; Secure" % (name, self.given))
            for name in _GIVEN_COOKIES
        ]
        return answer


@contextmanager
def tls_proxy(folder: Path) -> Iterator[TlsProxy]:
    """Yield a proxy on a port of its own, with a self-signed certificate."""
    port = free_ports(1)[0]
    proxy, pem = TlsProxy(port), str(_certificate(folder / "proxy.pem"))
    server = uvicorn.Server(
        uvicorn.Config(
            proxy, "127.0.0.1", port, log_level="warning", lifespan="off", ssl_certfile=pem, ssl_keyfile=pem
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started, "the proxy is served")
        yield proxy
    finally:
        server.should_exit = True
        thread.join()


def _certificate(file: Path) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "*.acme.example")])
    names = x509.SubjectAlternativeName([x509.DNSName("*.acme.example")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(key.private_bytes(*form) + signed.public_bytes(serialization.Encoding.PEM))
    return file
