"""librdkafka configuration of every client that Treeline opens; secrets are resolved here and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from backend.domain.errors import AddressForbidden, ClusterUnreachable
from backend.kafka.destinations import check_destinations

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
_SILENT_FACILITIES = frozenset({"FAIL", "ERROR", "GETPID", "TXNERR", "FENCED", "COORD"})


class LibrdkafkaLog:
    """librdkafka's log lines as structlog events; those that only repeat a failure we report go to debug."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("librdkafka")

    def log(self, level: int, message: str, *args: object, **_: object) -> None:
        """Called by confluent-kafka with (level, '%s %s…', client, facility, line)."""
        text = (message % args) if args else message
        silent = any(facility in text for facility in _SILENT_FACILITIES)
        (self._log.debug if silent else self._log.info)(text)


def resolve(value: str) -> str:
    """A value with its `${env:NAME}` and `${file:/path}` references replaced.

    Raises ClusterUnreachable naming the reference, never the secret.
    """

    def replaced(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "env":
            if name not in os.environ:
                raise ClusterUnreachable(
                    f"${{env:{name}}} is not set in the environment of this process; set it and restart"
                )
            return os.environ[name]
        try:
            return Path(name).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise ClusterUnreachable(f"${{file:{name}}} cannot be read: {error.strerror}") from error

    return _REFERENCE.sub(replaced, value)


def refuse_destinations(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise ClusterUnreachable for a place to which nothing is sent."""
    try:
        check_destinations(bootstrap_servers, properties)
    except AddressForbidden as error:
        raise ClusterUnreachable(error.detail) from error


def client_config(bootstrap_servers: str, properties: Mapping[str, str], **settings: object) -> dict[str, Any]:
    """Configuration of one client; keyword names use _ for the dots of librdkafka's keys.

    Raises ClusterUnreachable for a secret that cannot be read, and for a place to which nothing is sent.
    """
    refuse_destinations(bootstrap_servers, properties)
    config: dict[str, Any] = {key: resolve(value) for key, value in properties.items()}
    config["bootstrap.servers"] = bootstrap_servers
    # A cluster that comes back must be noticed within a second or two, not after librdkafka's 10 s.
    config["reconnect.backoff.max.ms"] = 1000
    config["log.connection.close"] = False
    config["logger"] = LibrdkafkaLog()
    config.update(
        {key if key.endswith("_cb") else key.replace("_", "."): value for key, value in settings.items()}
    )
    return config
