"""Client properties: only connection keys, and secrets only as references."""

from __future__ import annotations

import pytest

from backend.domain.client_properties import check_properties, masked, unmasked
from backend.domain.errors import PropertiesInvalid


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "app"},
        {"sasl.password": "${env:C6}"},
        {"ssl.key.password": "${file:/run/secrets/key-password}"},
        {"sasl.username": "${env:USER_NAME}"},
        {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"},
    ],
)
def test_connection_keys_are_accepted(properties: dict[str, str]) -> None:
    check_properties(properties)


@pytest.mark.parametrize(
    ("properties", "pointer", "says"),
    [
        ({"sasl.kerberos.kinit.cmd": "rm -rf /"}, "/properties/sasl.kerberos.kinit.cmd", "not among"),
        ({"plugin.library.paths": "/tmp/evil.so"}, "/properties/plugin.library.paths", "not among"),
        ({"ssl.engine.location": "/tmp/evil.so"}, "/properties/ssl.engine.location", "not among"),
        ({"bootstrap.servers": "elsewhere:9092"}, "/properties/bootstrap.servers", "not among"),
        ({"a/b~c": "x"}, "/properties/a~1b~0c", "not among"),
        ({"sasl.password": "hunter2"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "x${env:C6}"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "***"}, "/properties/sasl.password", "reference"),
        ({"sasl.password": "${file:relative}"}, "/properties/sasl.password", "reference"),
        ({"sasl.username": "${env:TREELINE_ADMIN_TOKEN}"}, "/properties/sasl.username", "Treeline's own"),
        ({"sasl.username": "a\x00b"}, "/properties/sasl.username", "cannot be printed"),
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
