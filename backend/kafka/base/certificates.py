"""Turn files of certificates and keys into the text (PEM) that Kafka clients take instead of a path."""

from __future__ import annotations

import re

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n[^\x00]*?-----END \1-----")


class NotUsable(Exception):
    """A file holds no certificate or key that a client can use; the message follows the file's name."""


def pems_in(content: bytes) -> str:
    """Return the PEM blocks of a file, without the text between them. Raises NotUsable if there is none."""
    blocks = [found.group().decode("ascii", "ignore") for found in _PEM.finditer(content)]
    if not blocks:
        raise NotUsable("holds no certificate or key in PEM form")
    return "\n".join(blocks) + "\n"


def of_keystore(content: bytes, password: str) -> dict[str, str]:
    """Return the properties that replace a PKCS#12 file: its key, its certificate and the chain above it.

    Raises NotUsable if the password is wrong or the file is not PKCS#12.
    """
    try:
        found = load_pkcs12(content, password.encode() or None)
    except ValueError:
        raise NotUsable("is no PKCS#12 file that ssl.keystore.password opens") from None
    if found.key is None or found.cert is None:
        raise NotUsable("holds no private key with its certificate")
    chain = [found.cert, *found.additional_certs]
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "ssl.certificate.pem": "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in chain),
        "ssl.key.pem": key.decode(),
    }
