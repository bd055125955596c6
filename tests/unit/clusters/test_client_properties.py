"""Client properties: only connection keys, and secrets only as references."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import PropertiesInvalid
from backend.domain.clusters.client_properties import (
    SECRET_KEYS,
    check_properties,
    check_secrets_stay,
    masked,
    unmasked,
)

TOKENS = "sasl.oauthbearer.token.endpoint.url"
ASSERTION = "sasl.oauthbearer.assertion.file"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "app"},
        {"sasl.password": "${env:C6}"},
        {"ssl.key.password": "${file:/run/secrets/key-password}"},
        {"sasl.username": "${env:USER_NAME}"},
        {"ssl.ca.location": "probe"},
        {"ssl.ca.location": "/run/secrets/ca.pem", "ssl.keystore.location": "/run/secrets/key.p12"},
        {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"},
    ],
)
def test_connection_keys_are_accepted(properties: dict[str, str]) -> None:
    check_properties(properties)


@pytest.mark.parametrize(
    ("properties", "pointer", "says"),
    [
        ({"sasl.kerberos.kinit.cmd": "rm -rf /"}, "/properties/sasl.kerberos.kinit.cmd", "not one of the allowed"),
        ({"plugin.library.paths": "/tmp/evil.so"}, "/properties/plugin.library.paths", "not one of the allowed"),
        ({"ssl.engine.location": "/tmp/evil.so"}, "/properties/ssl.engine.location", "not one of the allowed"),
        ({"ssl.providers": "evil"}, "/properties/ssl.providers", "not one of the allowed"),
        ({"ssl.crl.location": "/dev/stdin"}, "/properties/ssl.crl.location", "not one of the allowed"),
        ({"sasl.kerberos.keytab": "/etc/passwd"}, "/properties/sasl.kerberos.keytab", "not one of the allowed"),
        ({"https.ca.location": "/dev/stdin"}, "/properties/https.ca.location", "not one of the allowed"),
        ({ASSERTION: "/etc/passwd"}, f"/properties/{ASSERTION}", "not one of the allowed"),
        ({"sasl.mechanism": "gssapi"}, "/properties/sasl.mechanism", "kinit"),
        ({"sasl.mechanisms": "GSSAPI"}, "/properties/sasl.mechanisms", "kinit"),
        ({"ssl.ca.location": "ca.pem"}, "/properties/ssl.ca.location", "absolute path"),
        ({"ssl.key.location": "/run/../etc/passwd"}, "/properties/ssl.key.location", "absolute path"),
        ({"ssl.certificate.location": "probe"}, "/properties/ssl.certificate.location", "absolute path"),
        ({"bootstrap.servers": "elsewhere:9092"}, "/properties/bootstrap.servers", "not one of the allowed"),
        ({"a/b~c": "x"}, "/properties/a~1b~0c", "not one of the allowed"),
        ({"sasl.password": "hunter2"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "x${env:C6}"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "***"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "${file:relative}"}, "/properties/sasl.password", "reference"),
        ({"sasl.username": "${env:TREELINE_ADMIN_TOKEN}"}, "/properties/sasl.username", "Treeline's own"),
        ({"client.id": "x${env:HOME}"}, "/properties/client.id", "whole value"),
        ({"sasl.username": "${env:A}${env:B}"}, "/properties/sasl.username", "whole value"),
        ({"client.id": "${env:HOME}"}, "/properties/client.id", "cannot be a reference"),
        ({TOKENS: "https://evil/${env:HOME}"}, f"/properties/{TOKENS}", "whole value"),
        ({TOKENS: "http://127.0.0${file:/dev/null}.1:1/"}, f"/properties/{TOKENS}", "whole value"),
        ({"sasl.password": "${env:treeline_admin_token}"}, "/properties/sasl.password", "Treeline's own"),
        ({"sasl.username": "a\x00b"}, "/properties/sasl.username", "non-printable characters"),
        ({"client.id": "x" * 20000}, "/properties/client.id", "longer"),
    ],
)
def test_what_runs_code_or_carries_a_plain_secret_is_refused(
    properties: dict[str, str], pointer: str, says: str
) -> None:
    with pytest.raises(PropertiesInvalid, match=says) as refused:
        check_properties(properties)
    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert "hunter2" not in refused.value.detail


def test_secrets_are_masked_and_a_mask_sent_back_keeps_the_secret() -> None:
    present = {"sasl.username": "app", "sasl.password": "${env:C6}"}
    shown = masked(present)
    assert shown == {"sasl.username": "app", "sasl.password": "***"}
    assert unmasked(shown, present) == present
    assert unmasked({"sasl.password": "***"}, {}) == {"sasl.password": "***"}
    assert set(masked(dict.fromkeys(SECRET_KEYS, "${env:C6}")).values()) == {"***"}


SECRET = {"sasl.password": "${env:C6}", "sasl.oauthbearer.client.secret": "${env:O}", TOKENS: "https://a/"}


@pytest.mark.parametrize(
    ("given", "now", "wanted_anew"),
    [
        (None, "a:1,c:3", ["sasl.oauthbearer.client.secret", "sasl.password"]),
        ({**SECRET, "sasl.password": "***"}, "c:3", ["sasl.password"]),
        (masked(SECRET) | {TOKENS: "https://b/"}, "a:1", ["sasl.oauthbearer.client.secret"]),
        (SECRET | {TOKENS: "https://b/"}, "c:3", []),
        (masked(SECRET), "b:2", []),
        ({"sasl.username": "x"}, "c:3", []),
        (None, "b:2, a:1", []),
    ],
)
def test_secrets_that_are_not_given_anew_go_to_no_other_servers(
    given: dict[str, str] | None, now: str, wanted_anew: list[str]
) -> None:
    if not wanted_anew:
        check_secrets_stay(given, SECRET, before="a:1,b:2", now=now)
        return
    with pytest.raises(PropertiesInvalid, match="give it again") as refused:
        check_secrets_stay(given, SECRET, before="a:1,b:2", now=now)
    assert [each.pointer for each in refused.value.errors] == [f"/properties/{key}" for key in wanted_anew]
