"""Client properties of a cluster: the allow-list of librdkafka keys, and references to secrets.

Only connection keys are allowed. Some librdkafka keys run commands (`sasl.kerberos.kinit.cmd`) or load libraries
(`plugin.library.paths`, `ssl.engine.location`): the permission to edit a cluster must not let anybody run code on
the workers. A secret is given as a reference, `${env:NAME}` or `${file:/path}`, which is resolved where the client
is made, because the event log keeps everything for ever. (Design, "Access".)
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from backend.domain.base.errors import FieldError, PropertiesInvalid

TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
SECRET_KEYS = frozenset(
    {"sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.client.secret"}
)
PLAIN_KEYS = frozenset(
    {
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "enable.ssl.certificate.verification",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        TOKEN_ENDPOINT,
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)
# Properties whose value is the path of a file, and the property that takes the contents of the file instead.
# Every path property of librdkafka that is not here is refused: what it loads as code (`plugin.library.paths`,
# `ssl.engine.location`, `ssl.providers`) or reads by itself (`ssl.crl.location`, `sasl.kerberos.keytab`, assertion
# files of OAuth) cannot be checked before librdkafka opens it.
PEM_OF_LOCATION = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
KEYSTORE = "ssl.keystore.location"
LOCATION_KEYS = frozenset({*PEM_OF_LOCATION, KEYSTORE})
PROBE = "probe"
"""Value of `ssl.ca.location` that lets librdkafka look for the system's certificates; it is no path."""
_MECHANISM_KEYS = ("sasl.mechanism", "sasl.mechanisms")
# Properties that may be references: secrets, contents of files, and user names. Values of other properties appear
# in addresses, logs and messages, where no secret belongs.
REFERENCE_KEYS = SECRET_KEYS | {"sasl.username", "ssl.ca.pem", "ssl.certificate.pem"}
MASK = "***"
LONGEST_VALUE = 16384

REFERENCE = re.compile(r"\$\{(?:env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<path>/[^}\x00-\x1f\x7f]+))\}")
"""Pattern for the whole value: a value that merely contains a reference is no reference."""


def check_properties(properties: Mapping[str, str], pointer: str = "/properties") -> None:
    """Raise PropertiesInvalid with one FieldError for every wrong key or value."""
    errors = tuple(
        FieldError(f"{pointer}/{_escaped(key)}", problem)
        for key, value in properties.items()
        if (problem := _problem(key, value))
    )
    if errors:
        raise PropertiesInvalid("; ".join(error.detail for error in errors[:3]), errors)


def _problem(key: str, value: str) -> str | None:
    if key not in PLAIN_KEYS and key not in SECRET_KEYS:
        return f"the key {key[:60]!r} is not one of the allowed connection keys"
    if problem := reference_problem(key, value):
        return problem
    if key in SECRET_KEYS and not is_reference(value):
        return f"{key} is a secret: give a reference, ${{env:NAME}} or ${{file:/path}}, never the secret itself"
    if len(value) > LONGEST_VALUE:
        return f"{key} is longer than {LONGEST_VALUE} characters"
    if any(not (character.isprintable() or character == "\n") for character in value):
        return f"{key} contains non-printable characters"
    if key in _MECHANISM_KEYS and value.strip().upper() == "GSSAPI":
        return f"{key}: GSSAPI is not supported, since librdkafka runs kinit as a command for it"
    return _location_problem(key, value)


def location_of(key: str, value: str) -> str | None:
    """Return the path of the file that a property names; None if the property names no file."""
    return value if key in LOCATION_KEYS and not (key == "ssl.ca.location" and value == PROBE) else None


def _location_problem(key: str, value: str) -> str | None:
    path = location_of(key, value)
    if path is None or (path.startswith("/") and path == posixpath.normpath(path)):
        return None
    return f"{key} must be the absolute path of a file, without . and .."


def reference_problem(key: str, value: str) -> str | None:
    """Return what is wrong with a property's reference; None if it is correct, or if there is none."""
    if "${" not in value:
        return None
    found = REFERENCE.fullmatch(value)
    if found is None:
        return f"{key} contains ${{: a reference, ${{env:NAME}} or ${{file:/path}}, must be the whole value"
    if key not in REFERENCE_KEYS:
        return f"{key} is not a secret and cannot be a reference: give the value itself"
    if (found["name"] or "").upper().startswith("TREELINE_"):
        # Otherwise a caller could have the control plane's own secrets sent to a cluster of the caller.
        return f"{key} must not refer to Treeline's own settings"
    return None


def is_reference(value: str) -> bool:
    """Tell whether a value is `${env:NAME}` or `${file:/path}`, and nothing else."""
    return REFERENCE.fullmatch(value) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with every secret as `***`, for responses."""
    return {key: MASK if key in SECRET_KEYS else value for key, value in properties.items()}


def unmasked(properties: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Replace each secret that was sent back as `***` by its present value, so that responses can be edited."""
    return {
        key: present[key] if value == MASK and key in SECRET_KEYS and key in present else value
        for key, value in properties.items()
    }


def check_secrets_stay(
    given: Mapping[str, str] | None, present: Mapping[str, str], *, before: str, now: str
) -> None:
    """Raise PropertiesInvalid if secrets would go to servers that they were not given for.

    The permission to change a cluster includes no knowledge of its secrets: sent back as `***`, or not named
    (`given` is None), they stay with their servers (CWE-441). `before` and `now`: the cluster's bootstrap servers.
    """
    wanted = present if given is None else unmasked(given, present)
    kept = [
        key for key in sorted(SECRET_KEYS & present.keys() & wanted.keys()) if given is None or given[key] == MASK
    ]
    by_others = _servers(now) - _servers(before)
    fetched = wanted.get(TOKEN_ENDPOINT) != present.get(TOKEN_ENDPOINT)
    detail = "the address changes, and a secret is only sent to the servers it was given for: give it again"
    errors = tuple(
        FieldError(f"/properties/{key}", detail)
        for key in kept
        if by_others or (fetched and key == "sasl.oauthbearer.client.secret")
    )
    if errors:
        names = ", ".join(error.pointer.rpartition("/")[2] for error in errors)
        raise PropertiesInvalid(f"{names}: {detail}, in properties, as a reference", errors)


def _servers(bootstrap_servers: str) -> set[str]:
    return {server.strip() for server in bootstrap_servers.split(",")}


def _escaped(key: str) -> str:
    """Return a key as one reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
