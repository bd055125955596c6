"""Secrets that are referred to, `${env:NAME}` and `${file:/path}`, are read here and nowhere else.

A value is a reference in whole or it is none: one within a text would carry a secret to wherever the text leads.
Who may edit a cluster names its references, and the secret goes to that cluster's brokers. So those of clusters
name nothing of Treeline's own (CWE-441, CWE-73); those of settings and files may, for who writes them has it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from backend.domain.client_properties import REFERENCE, reference_problem
from backend.domain.errors import ClusterUnreachable, FieldError, PropertiesInvalid
from backend.settings import settings

MOST_BYTES = 64 << 10
_OF_THE_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
# Of the local estate's secrets the only one that is for clusters, which are made with it.
_FOR_CLUSTERS = "secrets/kafka-password"


def resolve(value: str) -> str:
    """What a reference stands for; another value as it is.

    Raises ClusterUnreachable naming the reference, never the secret.
    """
    found = REFERENCE.fullmatch(value)
    if found is None:
        return value
    name = found["name"]
    if name is None:
        return _content(found["path"])
    if name not in os.environ:
        raise ClusterUnreachable(
            f"${{env:{name}}} is not set in the environment of this process; set it and restart"
        )
    return os.environ[name]


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """Client properties with what their references stand for.

    Raises ClusterUnreachable for one that cannot be read, or must not: also where it was recorded before.
    """
    try:
        check_references(properties)
    except PropertiesInvalid as error:
        raise ClusterUnreachable(error.detail, error.errors) from error
    return {key: resolve(value) for key, value in properties.items()}


def check_references(properties: Mapping[str, str], pointer: str = "/properties") -> None:
    """Raise PropertiesInvalid for references that a cluster's properties must not have. Nothing is read."""
    for key, value in properties.items():
        found = REFERENCE.fullmatch(value)
        problem = reference_problem(key, value)
        if problem is None and found is not None and found["path"]:
            problem = _path_problem(key, found["path"])
        if problem is not None:
            raise PropertiesInvalid(problem, (FieldError(f"{pointer}/{key}", problem),))


def _path_problem(key: str, path: str) -> str | None:
    config = settings()
    # What a link leads to counts.
    real = Path(os.path.realpath(path))
    home = Path(os.path.realpath(config.home))
    if real == home / _FOR_CLUSTERS:
        return None
    folders = [Path(os.path.realpath(folder)) for folder in config.secret_folders]
    if folders:
        if any(real.is_relative_to(folder) for folder in folders):
            return None
        return f"{key}: {path} is in none of the folders for secrets of clusters (TREELINE_SECRET_FOLDERS)"
    if any(real.is_relative_to(folder) for folder in (home, *_OF_THE_SYSTEM)):
        return f"{key} must not refer to {path}: the system's and Treeline's own files are no cluster's secrets"
    return None


def _content(path: str) -> str:
    try:
        with _regular(path) as file:
            found = file.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise ClusterUnreachable(f"${{file:{path}}} has more than {MOST_BYTES} bytes: it is no secret")
        return found.decode().rstrip("\n")
    except OSError as error:
        raise ClusterUnreachable(f"${{file:{path}}} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ClusterUnreachable(f"${{file:{path}}} cannot be read: it is no text in UTF-8") from error


@contextmanager
def _regular(path: str) -> Iterator[BinaryIO]:
    # Without waiting: a pipe that nobody writes to would hold this thread for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ClusterUnreachable(f"${{file:{path}}} is no regular file")
        yield file
