"""Resolve what clients' properties refer to: secrets (`${env:NAME}`, `${file:/path}`) and files of certificates.

A value is a reference in whole or it is none: one within a text would carry a secret to wherever the text leads.
Who may edit a cluster names its references, and the secret goes to that cluster's brokers. So those of clusters
name only variables and folders that settings allow, and nothing of Treeline's own (CWE-441, CWE-73); those of
settings and of the process's own files may, for who writes them has the process's rights (`resolve`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from backend.domain.base.errors import ClusterUnreachable, FieldError, PropertiesInvalid
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
"""Of a secret."""
MOST_CERTIFICATE_BYTES = 1 << 20
"""Of a file of certificates: those of all public authorities together have a quarter of it."""


def resolve(value: str) -> str:
    """Return what a reference of the process's owner stands for; another value as it is.

    Raises ClusterUnreachable naming the reference, never the secret.
    """
    return _resolved(value, lambda path: read_for_owner(path, MOST_BYTES))


def resolved(properties: Mapping[str, str], bootstrap_servers: str) -> dict[str, str]:
    """Return a cluster's client properties with what they refer to: no path of a file is left among them.

    Raises ClusterUnreachable for what cannot be read, or must not: also where it was recorded before.
    """
    try:
        _check_allowed(properties, bootstrap_servers, "/properties")
        return _contents(properties, "/properties")
    except PropertiesInvalid as error:
        raise ClusterUnreachable(error.detail, error.errors) from error


def check_references(properties: Mapping[str, str], bootstrap_servers: str, pointer: str = "/properties") -> None:
    """Raise PropertiesInvalid for references and files that a cluster's properties must not have.

    What is allowed but cannot be read now (a file that is not there yet) passes.
    """
    _check_allowed(properties, bootstrap_servers, pointer)
    for key, value in properties.items():
        with suppress(ClusterUnreachable):
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
    """Whether it is the local estate's password, on its way to a broker of this machine and nowhere else."""
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
            raise ClusterUnreachable(
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
        raise ClusterUnreachable(f"{path} cannot be read: {error.strerror}") from error


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
        raise ClusterUnreachable(
            f"${{env:{name}}} is not set in the environment of this process; set it and restart"
        )
    return os.environ[name]


def _text(path: str, read: Callable[[str], bytes]) -> str:
    try:
        return read(path).decode().rstrip("\n")
    except FileRefused as error:
        raise ClusterUnreachable(f"${{file:{path}}} cannot be read: {error}") from error
    except OSError as error:
        raise ClusterUnreachable(f"${{file:{path}}} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ClusterUnreachable(f"${{file:{path}}} cannot be read: it is no text in UTF-8") from error
