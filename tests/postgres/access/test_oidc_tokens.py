"""ID tokens are accepted only with the provider's signature, for this client, for this login."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from backend.oidc import id_tokens
from backend.oidc.errors import ProviderRefused
from tests.support.console import openid_provider
from tests.support.console.consoles import Console
from tests.support.console.oidc import log_in, refused
from tests.support.console.openid_provider import CLIENT_ID, Claims, Provider, new_key


def claim(**changes: Any) -> Callable[[Claims], Claims]:
    return lambda claims: {k: v for k, v in {**claims, **changes}.items() if v is not None}


WRONG_CLAIMS = (
    (claim(nonce="of another login"), "nonce is wrong"),
    (claim(nonce=None), "nonce is wrong or missing"),
    (claim(aud="another"), "for another client"),
    (claim(aud=["another"]), "for another client"),
    (claim(aud=[CLIENT_ID, "another"]), "for another client"),
    (claim(azp="another"), "for another client"),
    (claim(iss="https://another.example"), "iss is wrong"),
    (claim(iss=None), "iss is wrong or missing"),
    (claim(exp=int(time.time()) - 120), "has expired"),
    (claim(exp=None), "exp is wrong or missing"),
    (claim(iat=int(time.time()) + 3600), "iat is wrong"),
    (claim(sub=None), "sub is wrong or missing"),
    (claim(sub=7), "sub is wrong"),
    (claim(sub=""), "sub"),
)
WRONG_SIGNATURES = (
    openid_provider.unsigned,
    openid_provider.signed_with_public_key,
    openid_provider.signed_by_another,
    openid_provider.tampered,
    lambda *_: "no token",
    lambda *_: None,
)


def test_a_token_that_says_the_wrong_thing_is_refused(sso: Console, provider: Provider) -> None:
    for wrong, words in WRONG_CLAIMS:
        provider.wrong = wrong
        refused(log_in(sso)[1], words)
    assert sso.rest.ok("GET", "/users")["items"] == []


def test_a_token_that_is_not_signed_by_the_provider_is_refused(sso: Console, provider: Provider) -> None:
    for sign in WRONG_SIGNATURES:
        provider.sign = sign
        refused(log_in(sso)[1], "ID token")
    assert sso.rest.ok("GET", "/users")["items"] == []


def test_a_token_for_several_says_who_asked_for_it(sso: Console, provider: Provider) -> None:
    provider.wrong = claim(aud=[CLIENT_ID, "another"], azp=CLIENT_ID)
    assert log_in(sso)[1].status_code == 303


def test_elliptic_keys_are_as_good(sso: Console, provider: Provider) -> None:
    provider.keys, provider.algorithm = [new_key("curve", "EC"), new_key("other")], "ES256"
    assert log_in(sso)[1].status_code == 303


def test_a_new_key_is_read_once_and_not_again_at_once(
    sso: Console, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_in(sso)[1].status_code == 303
    provider.keys = [new_key("second")]
    refused(log_in(sso)[1], "an unknown key")  # read a moment ago
    assert provider.asked.count("/keys") == 1
    monkeypatch.setattr(id_tokens, "RELOAD_SECONDS", 0.0)
    assert log_in(sso)[1].status_code == 303
    assert log_in(sso)[1].status_code == 303
    assert provider.asked.count("/keys") == 2
    # One that was taken away opens nothing any more.
    provider.sign = lambda provider, claims: provider.signed(claims, new_key("first"))
    refused(log_in(sso)[1], "an unknown key")


def test_a_key_that_the_provider_took_away_is_trusted_for_an_hour_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(id_tokens, "time", SimpleNamespace(monotonic=lambda: clock.now))
    described = [new_key("first"), new_key("second")]
    keys = id_tokens.Keys(lambda: {"keys": [key.as_dict(private=False) for key in described]})
    assert keys.find("first").kid == "first"
    del described[0]
    clock.now += 3600
    assert keys.find("first").kid == "first"
    clock.now += 1
    with pytest.raises(ProviderRefused, match="an unknown key"):
        keys.find("first")
    assert keys.find("second").kid == "second"


NOT_UNDERSTOOD = (
    {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA", "kid": "a curve of tomorrow"},
    {"kty": "RSA", "kid": "half of it", "n": "AQAB"},
    {"kty": "RSA", "kid": 7, "n": 1, "e": None},
    {"kty": "AKP", "kid": "another kind", "pub": "AA"},
    {"kty": ["RSA"]},
    "no key",
    None,
)


def test_a_key_that_is_not_understood_stops_nobody(sso: Console, provider: Provider) -> None:
    provider.more_keys = list(NOT_UNDERSTOOD)
    assert log_in(sso)[1].status_code == 303


def test_after_keys_could_not_be_read_nobody_waits_for_them_again_at_once(
    sso: Console, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.description = {"jwks_uri": f"{provider.url}/.well-known/openid-configuration"}  # which has no keys
    refused(log_in(sso)[1], "its keys cannot be read")
    asked = len(provider.asked)
    refused(log_in(sso)[1], "could not be read a moment ago", status=503)
    assert provider.asked[asked:] == ["/authorize", "/token"]
    monkeypatch.setattr(id_tokens, "AGAIN_SECONDS", -1.0)
    refused(log_in(sso)[1], "its keys cannot be read")
