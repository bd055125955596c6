"""The provider of the settings: its metadata, the address for logins, and the claims of whoever returns.

The metadata is read at the first login, and again each hour: a process starts without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import structlog

from backend.domain.access.provider_login import Rules
from backend.domain.base.errors import ClusterUnreachable, DomainError, ValueInvalid
from backend.domain.clusters.client_properties import is_reference
from backend.kafka.base.references import resolve
from backend.oidc.errors import ProviderAway, ProviderRefused
from backend.oidc.id_tokens import Keys, claims_of
from backend.oidc.login_attempt import LoginAttempt
from backend.oidc.requests import ProviderHttp, is_safe
from backend.settings import Settings
from backend.url_schemes import scheme_of

logger = structlog.get_logger(__name__)

DESCRIBED_SECONDS = 3600.0
AWAY_SECONDS = 5.0
"""Seconds for which, after the provider did not answer, requests fail at once."""
AT_ONCE = 4
"""Most concurrent logins that wait for the provider: a slow provider must not take all threads."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, kw_only=True)
class Client:
    """Treeline as a client of the provider.

    `secret`: a reference; None for a client without one, by PKCE alone.
    """

    issuer: str
    name: str
    client_id: str
    secret: str | None
    scopes: str
    rules: Rules


class Provider:
    """The provider, one for each process; threads may share it."""

    def __init__(self, client: Client, http: ProviderHttp) -> None:
        self.client = client
        self._http = http
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._description: Mapping[str, Any] = {}
        self._described_at = self._away_at = float("-inf")
        self._keys = Keys(lambda: http.fetch(self._endpoint("jwks_uri")))

    def authorization_url(self, begun: LoginAttempt, redirect_uri: str) -> str:
        """Return the address where a browser logs in. Raises ProviderAway, ProviderRefused."""
        with self._slot():
            endpoint = self._endpoint("authorization_endpoint")
        asked = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.client.scopes,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(endpoint, asked)

    def claims(self, code: str, begun: LoginAttempt, redirect_uri: str) -> dict[str, Any]:
        """Return the claims of the person who came back with this code. Raises ProviderAway, ProviderRefused."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": begun.verifier,
        }
        with self._slot():
            login = self._login(form)
            answer = self._http.fetch(self._endpoint("token_endpoint"), form=form, login=login)
            return claims_of(
                answer.get("id_token"),
                self._keys,
                issuer=self.client.issuer,
                client_id=self.client.client_id,
                nonce=begun.nonce,
            )

    def end_session_url(self, back: str) -> str | None:
        """Return where a browser's session at the provider ends; None if the provider has none, or is away."""
        try:
            with self._slot():
                endpoint = self._described().get("end_session_endpoint")
        except DomainError:
            return None
        if not is_safe(endpoint, plain=self._http.plain):
            return None
        asked = {"client_id": self.client.client_id, "post_logout_redirect_uri": back}
        return _with_query(str(endpoint), asked)

    def _login(self, form: dict[str, str]) -> tuple[str, str] | None:
        """Return the client's id and secret, if the provider expects them so (OpenID Connect Core 1.0, 9)."""
        if self.client.secret is None:
            form["client_id"] = self.client.client_id
            return None
        secret = _secret(self.client.secret)
        methods = self._described().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if "client_secret_basic" in methods:
            # RFC 6749, 2.3.1: both are form-encoded first.
            return quote_plus(self.client.client_id), quote_plus(secret)
        form.update(client_id=self.client.client_id, client_secret=secret)
        return None

    def _endpoint(self, name: str) -> str:
        return str(self._described()[name])

    def _described(self) -> Mapping[str, Any]:
        with self._lock:
            now = time.monotonic()
            if now - self._described_at <= DESCRIBED_SECONDS:
                return self._description
            if now - self._away_at <= AWAY_SECONDS:
                raise ProviderAway("It did not answer a moment ago.")
            try:
                self._description = self._read()
            except DomainError:
                self._away_at = time.monotonic()
                raise
            self._described_at = time.monotonic()
            return self._description

    def _read(self) -> Mapping[str, Any]:
        """Read the provider's metadata (OpenID Connect Discovery 1.0, 4)."""
        found = self._http.fetch(self.client.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != self.client.issuer:
            raise ProviderRefused("its issuer differs from TREELINE_OIDC_ISSUER")
        for name in _ENDPOINTS:
            if not is_safe(found.get(name), plain=self._http.plain):
                raise ProviderRefused(f"its {name} is missing, or not https")
        return found

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            raise ProviderAway("Too many logins are in progress. Try again in some seconds.")
        try:
            yield
        finally:
            self._slots.release()


def provider_of(config: Settings) -> Provider | None:
    """Return the provider that the settings name, None if they name none.

    Raises ValueInvalid for wrong settings.
    """
    issuer, client_id, secret = config.oidc_issuer, config.oidc_client_id, config.oidc_client_secret
    if issuer is None:
        return None
    plain = scheme_of(issuer) == "http"
    _check(is_safe(issuer, plain=plain), "oidc_issuer", "must be an https address, or http within this machine")
    _check(bool(client_id), "oidc_client_id", "must be the client id of this control plane at the provider")
    _check(
        secret is None or is_reference(secret),
        "oidc_client_secret",
        "must be a reference: ${env:NAME} or ${file:/path}",
    )
    _check("openid" in config.oidc_scopes.split(), "oidc_scopes", "must contain openid")
    rules = Rules(
        user_claim=config.oidc_user_claim,
        groups_claim=config.oidc_groups_claim,
        grants=config.oidc_grants,
        domains=frozenset(map(str.lower, config.oidc_allowed_domains)),
        groups=frozenset(config.oidc_allowed_groups),
    )
    rules.check()
    client = Client(
        issuer=issuer,
        name=config.oidc_name,
        client_id=client_id or "",
        secret=secret,
        scopes=config.oidc_scopes,
        rules=rules,
    )
    ca_file = None if config.oidc_ca_file is None else str(config.oidc_ca_file)
    return Provider(client, ProviderHttp(config.oidc_timeout_seconds, plain, ca_file))


def _secret(reference: str) -> str:
    """Read the secret at each login, so that a new one in its file takes effect at once."""
    try:
        return resolve(reference)
    except ClusterUnreachable as error:
        logger.error("TREELINE_OIDC_CLIENT_SECRET cannot be read", reason=error.detail)
        raise ProviderAway("The client secret for the provider cannot be read here.") from error


def _check(holds: bool, setting: str, sentence: str) -> None:
    if not holds:
        raise ValueInvalid(f"TREELINE_{setting.upper()} {sentence}")


def _with_query(address: str, asked: Mapping[str, str]) -> str:
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"
