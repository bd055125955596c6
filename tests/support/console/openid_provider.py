"""A small OpenID provider as a real HTTP server with real keys, which can be told to do each thing wrongly."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key, RSAKey

CLIENT_ID, CLIENT_SECRET = "treeline", "a secret: of the tests"
Claims = dict[str, Any]


def new_key(kid: str, kind: str = "RSA") -> Key:
    parameters: Any = {"kid": kid, "use": "sig"}
    return RSAKey.generate_key(2048, parameters) if kind == "RSA" else ECKey.generate_key("P-256", parameters)


@dataclass
class Provider:
    """State and behaviour of a provider, which tests change. `wrong` changes claims before they are signed."""

    url: str = ""
    keys: list[Key] = field(default_factory=lambda: [new_key("first")])
    algorithm: str = "RS256"
    person: Claims = field(default_factory=lambda: {"sub": "s-1", "preferred_username": "Ada@acme.example"})
    wrong: Callable[[Claims], Claims] = lambda claims: claims
    sign: Callable[[Provider, Claims], str] | None = None
    """Replaces the correct signature."""
    slow_seconds: float = 0.0
    """Seconds to wait before an answer."""
    byte_seconds: float = 0.0
    """Seconds to wait after each byte of an answer."""
    description: Claims = field(default_factory=dict)
    """Replaces fields of its metadata."""
    more_keys: list[Any] = field(default_factory=list)
    """Additional keys, as they are sent."""
    asked: list[str] = field(default_factory=list)
    """Paths, in their order."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def described(self) -> Claims:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/logout",
            **self.description,
        }

    def described_keys(self) -> list[Any]:
        return [*self.more_keys, *(key.as_dict(private=False) for key in self.keys)]

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims = self.wrong(claims)
        return self.signed(claims) if self.sign is None else self.sign(self, claims)

    def signed(self, claims: Claims, key: Key | None = None) -> str:
        key = key or self.keys[0]
        return jwt.encode({"alg": self.algorithm, "kid": key.kid}, claims, key, algorithms=[self.algorithm])

    def authorize(self, query: dict[str, str]) -> str:
        """Log the person in, and return the address where the browser goes on."""
        assert query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Claims]:
        login = base64.b64decode(authorization.removeprefix("Basic ")).decode().split(":")
        if [unquote_plus(part) for part in login] != [CLIENT_ID, CLIENT_SECRET]:
            return 401, {"error": "invalid_client"}
        begun = self.codes.pop(form.get("code", ""), None)  # it is good for one time
        if begun is None or begun["redirect_uri"] != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != begun["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"token_type": "Bearer", "access_token": "x", "id_token": self.id_token(begun["nonce"])}


def unsigned(_: Provider, claims: Claims) -> str:
    """Return a token with `alg: none`."""
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def signed_with_public_key(provider: Provider, claims: Claims) -> str:
    """Return a token with HS256, and the public key, which everybody has, as the secret."""
    head = f"{_part({'alg': 'HS256', 'kid': provider.keys[0].kid})}.{_part(claims)}"
    key = provider.keys[0].as_pem(private=False)
    return f"{head}.{_encoded(hmac.new(key, head.encode(), hashlib.sha256).digest())}"


def signed_by_another(provider: Provider, claims: Claims) -> str:
    """Return a token signed by another key with the id of the provider's."""
    return provider.signed(claims, new_key(str(provider.keys[0].kid)))


def tampered(provider: Provider, claims: Claims) -> str:
    """Signed, and then changed."""
    head, _, signature = provider.signed(claims).split(".")
    return f"{head}.{_part({**claims, 'sub': 'root'})}.{signature}"


@contextmanager
def serving(provider: Provider, port: int = 0) -> Iterator[Provider]:
    """Serve the provider on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(provider))
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._asked(parts.path)
            if parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", provider.authorize(query))
                self.end_headers()
            elif parts.path == "/.well-known/openid-configuration":
                self._answer(200, provider.described())
            elif parts.path == "/keys":
                self._answer(200, {"keys": provider.described_keys()})
            else:
                self._answer(200, {"logged out": parts.query})

        def do_POST(self) -> None:
            self._asked(self.path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._answer(*provider.token(form, self.headers.get("authorization", "")))

        def _asked(self, path: str) -> None:
            provider.asked.append(path)
            time.sleep(provider.slow_seconds)

        def _answer(self, status: int, document: Claims) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not provider.byte_seconds:
                self.wfile.write(body)
                return
            with suppress(OSError):  # who asked waits no longer
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(provider.byte_seconds)

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    return Handler


def _part(document: Claims) -> str:
    return _encoded(json.dumps(document).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
