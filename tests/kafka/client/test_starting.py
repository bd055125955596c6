"""Starts of clients, refused configurations, and misbehaving control planes."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from treeline_client import (
    ConfigurationRefused,
    DiscoveryRefused,
    DiscoveryUnavailable,
    SwitchingConsumer,
    SwitchingProducer,
)

from tests.kafka.client.flows import Flow, stored
from tests.nightly import some_now
from tests.support.api.control_plane import TOKEN, ControlPlane


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
def test_a_refusal_at_the_start_is_raised_with_what_the_control_plane_says(plane, status):
    plane.says()
    plane.status, plane.problem = status, "no environment acme/retail/prod"
    with pytest.raises(DiscoveryRefused) as refused:
        SwitchingProducer(plane.conf())
    assert (refused.value.status, refused.value.detail) == (status, "no environment acme/retail/prod")
    assert TOKEN not in str(refused.value)


def test_a_wrong_token_is_refused_and_stands_in_no_message(plane):
    with pytest.raises(DiscoveryRefused) as refused:
        SwitchingConsumer({**plane.conf(), "treeline.token": "secret-of-another", "group.id": "g"})
    assert refused.value.status == 401
    assert "secret" not in str(refused.value)


def test_without_a_control_plane_it_starts_from_the_cache_only(plane, clusters, topic, tmp_path):
    conf = {**plane.conf(), "treeline.cache.directory": str(tmp_path / "cache"), "treeline.start.timeout.ms": 300}
    plane.stop()
    with pytest.raises(DiscoveryUnavailable):
        SwitchingProducer(conf)
    plane.start()
    SwitchingProducer(conf).close()
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert TOKEN not in kept.read_text()
    plane.stop()
    with SwitchingProducer(conf) as producer:
        flow = Flow(producer, topic)
        flow.send(10)
        flow.finish()
        plane.start()
        plane.move("cluster-2", "emergency")
        plane.wait_reported("active", generation=4)
        flow.send(10)
        flow.finish()
    assert len(stored(clusters["cluster-1"], topic)) == len(stored(clusters["cluster-2"], topic)) == 10
    kept.write_text("{")
    plane.stop()
    with pytest.raises(DiscoveryUnavailable):
        SwitchingProducer(conf)


@some_now(
    "status, body",
    [
        (200, b"<html>"),
        (200, b"{}"),
        (200, b'{"generation": "nine"}'),
        (200, b"[" * 100_000),
        (200, b" " * (2 << 20)),
        (500, b""),
        (429, b""),
        (302, b""),
        (404, b""),
    ],
    now=(0, 5),
)
def test_nothing_that_a_control_plane_answers_later_stops_a_client(plane, clusters, topic, status, body, caplog):
    with caplog.at_level(logging.DEBUG, "treeline_client"), SwitchingProducer(plane.conf()) as producer:
        plane.status, plane.body = status, body
        plane.says(generation=3)
        plane.wait(lambda: producer.metrics().poll_failures >= 2)
        flow = Flow(producer, topic)
        flow.send(10)
        flow.finish()
        plane.status, plane.body = 200, None
        plane.move("cluster-2", "emergency")
        plane.wait_reported("active", generation=4)
        assert producer.cluster() == "cluster-2"
    assert len(stored(clusters["cluster-1"], topic)) == 10
    assert TOKEN not in caplog.text


def test_the_wall_clock_may_be_anything(plane, clusters, topic, monkeypatch):
    with SwitchingProducer(plane.conf()) as producer:
        flow = Flow(producer, topic)
        flow.send(10)
        monkeypatch.setattr(time, "time", lambda: 4_000_000_000.0)
        plane.hold("cluster-2")
        plane.wait_reported("held")
        monkeypatch.setattr(time, "time", lambda: 1.0)
        flow.send(10)
        plane.move("cluster-2")
        flow.finish()
        assert producer.metrics().promises_run_out == 0
    assert len(stored(clusters["cluster-2"], topic)) == 10


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"bootstrap.servers": "localhost"}, "bootstrap.servers"),
        ({"treeline.colour": "red"}, "treeline.colour"),
        ({"treeline.tenant": ""}, "treeline.tenant"),
        ({"treeline.url": "ftp://here"}, "treeline.url"),
        ({"treeline.url": "http://user:pw@here"}, "treeline.url"),
        ({"treeline.token": "two lines\r\nX: y"}, "treeline.token"),
        ({"treeline.unknown.outcome": "guess"}, "treeline.unknown.outcome"),
        ({"treeline.start.timeout.ms": "soon"}, "treeline.start.timeout.ms"),
    ],
)
def test_a_configuration_that_can_not_be_meant_is_refused_by_name(given, named):
    plane = {
        "treeline.url": "http://127.0.0.1:1",
        "treeline.token": TOKEN,
        "treeline.tenant": "acme",
        "treeline.instance": "retail",
        "treeline.environment": "prod",
    }
    with pytest.raises(ConfigurationRefused, match=named) as refused:
        SwitchingProducer({**plane, **given})
    assert TOKEN not in str(refused.value)


def test_two_clients_of_one_configuration_are_two_for_the_control_plane(plane: ControlPlane):
    with SwitchingProducer(plane.conf(), **{"client.id": "billing"}), SwitchingProducer(plane.conf()):
        plane.wait(lambda: len(plane.reports) == 2)
        names = sorted(plane.reports)
    assert names[0].startswith("billing-")
    assert names[1].startswith("treeline-")
    assert sorted(plane.gone) == names


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"treeline.zone": "az2"}, "treeline-zone=az2-"),
        ({"treeline.zone": "az2", "client.id": "billing"}, "billing-zone=az2-"),
        ({"treeline.zone": "az2", "client.id": "billing-zone=az3"}, "billing-zone=az3-"),
        ({"treeline.zone": "az2", "client.id": "svc-timezone=utc"}, "svc-timezone=utc-zone=az2-"),
        ({"client.id": "billing"}, "billing-"),
    ],
)
def test_a_client_says_its_zone_by_its_id(plane: ControlPlane, given: dict[str, str], told: str):
    with SwitchingProducer({**plane.conf(), **given}):
        plane.wait(lambda: plane.reports)
        (name,) = plane.reports
    assert name.rpartition("-")[0] + "-" == told


def test_discovery_is_asked_over_tls_by_whom_is_trusted_only(plane, tmp_path):
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plane._server.socket = context.wrap_socket(plane._server.socket, server_side=True)
    conf = {**plane.conf(), "treeline.url": plane.url.replace("http:", "https:"), "treeline.start.timeout.ms": 200}
    with pytest.raises(DiscoveryUnavailable, match="certificate"):
        SwitchingProducer(conf)
    with SwitchingProducer({**conf, "treeline.ca.location": str(certificate)}) as producer:
        plane.hold("cluster-2")
        plane.wait_reported("held")
        plane.abort()
        assert producer.generation() == 3


def _certificate(folder: Path) -> Path:
    """Create a key and a self-signed certificate for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path = folder / "certificate.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path
