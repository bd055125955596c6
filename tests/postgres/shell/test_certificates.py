"""Secrets go over TLS only to the host that the certificate names, however the address is written."""

from __future__ import annotations

import datetime
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from backend.oidc.errors import ProviderAway
from backend.oidc.requests import ProviderHttp
from backend.url_schemes import scheme_of
from tests.support.api.program import program_of
from tests.support.database.postgres import Database


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve with a self-signed certificate; yields host and port, and the requests it got."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", ""))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Log nothing, as tests are quiet."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(folder))
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.mark.parametrize("scheme", ["https", "HTTPS", "Https"])
def test_a_provider_with_a_false_certificate_is_told_nothing(tmp_path: Path, scheme: str) -> None:
    with served(tmp_path) as (place, asked):
        with pytest.raises(ProviderAway, match="does not answer"):
            ProviderHttp(5, plain=False).fetch(f"{scheme}://{place}/token", login=("treeline", "secret"))
        assert asked == []
        trusting = ProviderHttp(5, plain=False, ca_file=str(tmp_path / "server.pem"))
        assert trusting.fetch(f"{scheme}://{place}/token") == {} and len(asked) == 1


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_the_command_line_gives_its_token_to_no_false_certificate(
    database: Database, tmp_path: Path, scheme: str
) -> None:
    with program_of(database.url, tmp_path) as program, served(tmp_path) as (place, asked):
        answer = program("whoami", TREELINE_URL=f"{scheme}://{place}", TREELINE_TOKEN="secret")
        assert answer.returncode != 0 and "CERTIFICATE_VERIFY_FAILED" in answer.stderr
        assert asked == []


def test_a_scheme_is_read_as_the_standard_says() -> None:
    assert [scheme_of(url) for url in ("HTTPS://a", "http://a", "hTTp:a", "a:80", "//a", "", "http://[a")] == [
        "https", "http", "http", "a", "", "", "",
    ]  # fmt: skip
