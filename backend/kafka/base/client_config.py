"""librdkafka configuration of every client that Treeline opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from backend.domain.base.errors import AddressForbidden, ClusterUnreachable
from backend.kafka.base.destinations import check_destinations
from backend.kafka.base.references import resolved

_SILENT_FACILITIES = frozenset({"FAIL", "ERROR", "GETPID", "TXNERR", "FENCED", "COORD"})


class LibrdkafkaLog:
    """Logger that turns librdkafka's lines into structlog events; repeated failures go to the debug level."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("librdkafka")

    def log(self, level: int, message: str, *args: object, **_: object) -> None:
        """Log one line; confluent-kafka calls it with (level, '%s %s…', client, facility, line)."""
        text = (message % args) if args else message
        silent = any(facility in text for facility in _SILENT_FACILITIES)
        (self._log.debug if silent else self._log.info)(text)


def refuse_destinations(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise ClusterUnreachable if settings forbid an address of the cluster."""
    try:
        check_destinations(bootstrap_servers, properties)
    except AddressForbidden as error:
        raise ClusterUnreachable(error.detail) from error


def client_config(bootstrap_servers: str, properties: Mapping[str, str], **settings: object) -> dict[str, Any]:
    """Return the configuration of one client; keyword names use _ for the dots of librdkafka's keys.

    Raises ClusterUnreachable for a secret that cannot be read, and for a forbidden address.
    """
    config: dict[str, Any] = dict(resolved(properties, bootstrap_servers))
    refuse_destinations(bootstrap_servers, config)
    config["bootstrap.servers"] = bootstrap_servers
    # A cluster that comes back must be noticed within a second or two, not after librdkafka's 10 s.
    config["reconnect.backoff.max.ms"] = 1000
    config["log.connection.close"] = False
    config["logger"] = LibrdkafkaLog()
    config.update(
        {key if key.endswith("_cb") else key.replace("_", "."): value for key, value in settings.items()}
    )
    return config
