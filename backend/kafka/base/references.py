"""Resolution of what clients' properties refer to: secrets (`${env:NAME}`, `${file:/path}`) and certificate files.

A value is a reference as a whole or not at all: one inside a text would carry a secret to wherever the text goes.
A user who may edit a cluster chooses its references, and the secrets go to that cluster's brokers. Therefore
clusters may only name variables and folders that settings allow, and nothing of Treeline's own (CWE-441, CWE-73).
Settings and the process's own files may name any, since their author has the process's rights (`resolve`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from backend.domain.base.errors import FieldError, PropertiesInvalid, ReferenceUnusable
from backend.domain.clusters.client_properties import (
    KEYSTORE,
    PEM_OF_LOCATION,
    REFERENCE,
    location_of,
    reference_problem,
)
from backend.domain.webhooks.denied_networks import hosts_of, is_loopback
from backend.kafka.base import certificates
from backend.kafka.base.certificates import NotUsable
from backend.kafka.base.secret_files import (
    FileRefused,
    check_path,
    read_for_cluster,
    read_for_owner,
    read_of_local_estate,
)
from backend.settings import settings

MOST_BYTES = 64 << 10
"""Maximum size of a secret."""
MOST_CERTIFICATE_BYTES = 1 << 20
"""Maximum size of a certificate file; those of all public authorities together take a quarter of it."""


def resolve(value: str) -> str:
    """Resolve a reference of the process's owner; any other value is returned unchanged.

    Raises ReferenceUnusable naming the reference, never the secret.
    """
    return _resolved(value, lambda path: read_for_owner(path, MOST_BYTES))


def resolved(properties: Mapping[str, str], bootstrap_servers: str) -> dict[str, str]:
    """Resolve a cluster's client properties; no path of a file is left among them.

    Raises ReferenceUnusable for what cannot be read, or must not be, even if it was accepted earlier.
    """
    try:
        _check_allowed(properties, bootstrap_servers, "/properties")
        return _contents(properties, "/properties")
    except PropertiesInvalid as error:
        raise ReferenceUnusable(error.detail, error.errors) from error


def check_references(properties: Mapping[str, str], bootstrap_servers: str, pointer: str = "/properties") -> None:
    """Raise PropertiesInvalid for references and files that a cluster's properties must not have.

    Allowed references that cannot be read now (a file that does not exist yet) pass.
    """
    _check_allowed(properties, bootstrap_servers, pointer)
    for key, value in properties.items():
        with suppress(ReferenceUnusable):
            _contents({key: value}, pointer)


def _check_allowed(properties: Mapping[str, str], bootstrap_servers: str, pointer: str) -> None:
    for key, value in properties.items():
        problem = reference_problem(key, value) or _problem(key, value, bootstrap_servers)
        if problem is not None:
            raise _invalid(pointer, key, problem)


def _problem(key: str, value: str, bootstrap_servers: str) -> str | None:
    found = REFERENCE.fullmatch(value)
    if found is not None and found["name"]:
        return _variable_problem(key, found["name"])
    path = found["path"] if found is not None else location_of(key, value)
    if path is None:
        return None
    if found is not None and key == "sasl.password" and _is_of_local_estate(path, bootstrap_servers):
        return None
    try:
        check_path(path)
    except FileRefused as error:
        return f"{key}: {error}"
    return None


def _variable_problem(key: str, name: str) -> str | None:
    allowed = settings().secret_variables
    if any(fnmatchcase(name, pattern) for pattern in allowed):
        return None
    return (
        f"{key}: the variable {name[:100]} is not allowed: it is none of those for clusters; list the allowed "
        "variables in TREELINE_SECRET_VARIABLES"
    )


def _is_of_local_estate(path: str, bootstrap_servers: str) -> bool:
    """Return whether a path is the local estate's password, and it goes to a broker of this machine only."""
    hosts = hosts_of(bootstrap_servers)
    if not hosts or not all(map(is_loopback, hosts)):
        return False
    with suppress(OSError, FileRefused):
        return read_of_local_estate(path, MOST_BYTES) is not None
    return False


def _contents(properties: Mapping[str, str], pointer: str) -> dict[str, str]:
    found: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for key, value in properties.items():
        path = location_of(key, value)
        if path is None:
            found[key] = _resolved(value, _refusing(key, pointer, _of_cluster))
        else:
            files[key] = _refusing(key, pointer, _certificates)(path)
    for key, content in files.items():
        try:
            if key == KEYSTORE:
                found |= certificates.of_keystore(content, found.pop("ssl.keystore.password", ""))
            else:
                found[PEM_OF_LOCATION[key]] = certificates.pems_in(content)
        except NotUsable as error:
            raise ReferenceUnusable(
                f"{key}: {properties[key][:200]} {error}",
                (FieldError(f"{pointer}/{key}", f"{properties[key][:200]} {error}"),),
            ) from error
    return found


def _of_cluster(path: str) -> bytes:
    local = read_of_local_estate(path, MOST_BYTES)
    return read_for_cluster(path, MOST_BYTES) if local is None else local


def _certificates(path: str) -> bytes:
    try:
        return read_for_cluster(path, MOST_CERTIFICATE_BYTES)
    except OSError as error:
        raise ReferenceUnusable(f"{path} cannot be read: {error.strerror}") from error


def _refusing(key: str, pointer: str, read: Callable[[str], bytes]) -> Callable[[str], bytes]:
    def refusing(path: str) -> bytes:
        try:
            return read(path)
        except FileRefused as error:
            raise _invalid(pointer, key, f"{key}: {error}") from error

    return refusing


def _invalid(pointer: str, key: str, problem: str) -> PropertiesInvalid:
    return PropertiesInvalid(problem, (FieldError(f"{pointer}/{key}", problem),))


def _resolved(value: str, read: Callable[[str], bytes]) -> str:
    found = REFERENCE.fullmatch(value)
    if found is None:
        return value
    name, path = found["name"], found["path"]
    if name is None:
        return _text(path, read)
    if name not in os.environ:
        raise ReferenceUnusable(
            f"${{env:{name}}} is not set in the environment of this process; set it and restart"
        )
    return os.environ[name]


def _text(path: str, read: Callable[[str], bytes]) -> str:
    try:
        return read(path).decode().rstrip("\n")
    except FileRefused as error:
        raise ReferenceUnusable(f"${{file:{path}}} cannot be read: {error}") from error
    except OSError as error:
        raise ReferenceUnusable(f"${{file:{path}}} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReferenceUnusable(f"${{file:{path}}} cannot be read: it is no text in UTF-8") from error
