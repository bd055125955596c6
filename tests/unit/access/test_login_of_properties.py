"""A cluster's properties, which are librdkafka's, configure the client that speaks the rest of the protocol."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from backend.domain.base.errors import ClusterUnreachable
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.protocol_client import ProtocolClient, login
from backend.kafka.base.references import resolved

KEY_PASSWORD = "of the key"


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A certificate that signs itself, with its key in two forms."""
    folder = tmp_path_factory.mktemp("pems")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "treeline")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    found = {"certificate": builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)}
    for form, encryption in (
        ("key", serialization.NoEncryption()),
        ("locked", serialization.BestAvailableEncryption(KEY_PASSWORD.encode())),
    ):
        found[form] = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    found["keystore"] = pkcs12.serialize_key_and_certificates(
        b"treeline",
        key,
        x509.load_pem_x509_certificate(found["certificate"]),
        None,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    for form, pem in found.items():
        folder.joinpath(form).write_bytes(pem)
    return {form: folder / form for form in found}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {"security_protocol": "PLAINTEXT"}),
        ({"client.id": "c"}, {"security_protocol": "PLAINTEXT", "client_id": "c"}),
        (
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "u",
                "sasl.password": "p",
            },
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_plain_username": "u",
                "sasl_plain_password": "p",
            },
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"},
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "",
                "sasl_plain_password": "",
            },
        ),
    ],
)
def test_properties_are_translated(properties: dict[str, str], expected: dict[str, str]) -> None:
    assert login(properties) == expected


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
    ],
)
def test_what_has_no_counterpart_is_named(properties: dict[str, str], says: str) -> None:
    with pytest.raises(LoginUnsupported, match=says):
        login(properties)


def test_tls_checks_the_broker_unless_it_is_told_not_to(pems: dict[str, Path]) -> None:
    def context(**more: str) -> ssl.SSLContext:
        found = login(
            {"security.protocol": "SSL", **{key.replace("_", "."): value for key, value in more.items()}}
        )
        made = found["ssl_context"]
        assert isinstance(made, ssl.SSLContext)
        return made

    pem = pems["certificate"].read_text()
    checked = context(ssl_ca_pem=pem)
    assert (checked.verify_mode, checked.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert checked.cert_store_stats()["x509"] == 1
    by_any_name = context(ssl_ca_pem=pem, ssl_endpoint_identification_algorithm="none")
    assert (by_any_name.verify_mode, by_any_name.check_hostname) == (ssl.CERT_REQUIRED, False)
    unchecked = context(enable_ssl_certificate_verification="false")
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)


def test_certificates_come_from_files_and_from_properties(
    pems: dict[str, Path], set_to: Callable[..., None]
) -> None:
    set_to(secret_folders=[str(pems["certificate"].parent)])
    names = {"certificate": "ssl.certificate.location", "key": "ssl.key.location"}
    files = {location: str(pems[form]) for form, location in names.items()} | {
        "ssl.ca.location": str(pems["certificate"])
    }
    inline = {"ssl.certificate.pem": pems["certificate"].read_text(), "ssl.key.pem": pems["locked"].read_text()}
    read = resolved(files, "broker:9092")
    assert read == {key.replace("location", "pem"): Path(path).read_text() for key, path in files.items()}
    made = login({"security.protocol": "SSL", **read})["ssl_context"]
    assert made.cert_store_stats()["x509"] == 1
    login({"security.protocol": "SSL", **inline, "ssl.key.password": KEY_PASSWORD})
    keystore = {"ssl.keystore.location": str(pems["keystore"]), "ssl.keystore.password": KEY_PASSWORD}
    login({"security.protocol": "SSL", **resolved(keystore, "broker:9092")})
    for broken in ({**inline, "ssl.key.password": "wrong"}, inline):
        with pytest.raises(KafkaCallFailed, match="certificates") as refusal:
            login({"security.protocol": "SSL", **broken})
        assert KEY_PASSWORD not in refusal.value.reason
    with pytest.raises(ClusterUnreachable, match=r"PKCS#12 file that ssl.keystore.password opens"):
        resolved({**keystore, "ssl.keystore.password": "wrong"}, "broker:9092")


def test_nobody_at_an_address_is_a_failure_and_secrets_are_resolved(
    monkeypatch: pytest.MonkeyPatch, set_to: Callable[..., None]
) -> None:
    set_to(secret_variables=["OF_THE_TEST"])
    monkeypatch.setenv("OF_THE_TEST", "secret")
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "${env:OF_THE_TEST}",
    }
    client = ProtocolClient("127.0.0.1:9", properties, 0.5)
    with pytest.raises(KafkaCallFailed) as failure:
        client.send(None)  # type: ignore[arg-type]
    assert "secret" not in failure.value.reason
    client.close()
