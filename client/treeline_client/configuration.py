"""Configuration of a client: librdkafka's keys, passed on to each active cluster, and Treeline's own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from treeline_client.errors import ConfigurationRefused
from treeline_client.groups import group_name_problem

_SAYS_ZONE = re.compile(r"(?<![A-Za-z0-9])zone=\S")
"""Pattern by which the nodes of a zone router find the zone in a client.id."""
_REQUIRED = ("treeline.url", "treeline.token", "treeline.tenant", "treeline.instance", "treeline.environment")


def _milliseconds(key: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 1:
        raise ConfigurationRefused(f"{key} must be a positive number of milliseconds")
    return number


def _outcome(key: str, value: Any) -> str:
    if value not in ("report", "resend"):
        raise ConfigurationRefused(f"{key} must be report or resend")
    return str(value)


def _text(key: str, value: Any) -> str:
    return str(value)


_OPTIONAL: dict[str, tuple[Any, Callable[[str, Any], Any]]] = {
    "treeline.zone": ("", _text),
    "treeline.cache.directory": (None, _text),
    "treeline.ca.location": ("", _text),
    "treeline.start.timeout.ms": (10_000, _milliseconds),
    "treeline.request.timeout.ms": (5_000, _milliseconds),
    "treeline.unknown.outcome": ("report", _outcome),
}
"""Optional keys: their default, and the function that reads a value."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The checked configuration of one client."""

    url: str
    token: str = field(repr=False)
    tenant: str
    instance: str
    environment: str
    zone: str
    cache_directory: Path | None
    """Directory for the last answer of discovery; None: it is not cached."""
    ca_location: str
    """Path of the CA certificates for an https URL; empty: the system's."""
    start_timeout_s: float
    """Seconds that a start waits for the control plane if there is no cached answer."""
    request_timeout_s: float
    """Seconds that an answer may take, in addition to the wait of a long poll."""
    resend_unknown: bool
    """Send records with unknown outcome again after an emergency, instead of reporting them."""
    kafka: dict[str, Any] = field(repr=False)
    """Keys of librdkafka, as given."""

    @property
    def names(self) -> dict[str, str]:
        """Return the names that formats are filled in with."""
        return {"tenant": self.tenant, "instance": self.instance, "environment": self.environment}


def read(given: Mapping[str, Any]) -> Configuration:
    """Check an application's configuration. Raises ConfigurationRefused naming the first wrong key."""
    ours = {key: value for key, value in given.items() if key.startswith("treeline.")}
    kafka = {key: value for key, value in given.items() if not key.startswith("treeline.")}
    # Use the same name with clusters and discovery: librdkafka's own default is "rdkafka".
    kafka.setdefault("client.id", "treeline")
    if ours.get("treeline.zone") and not _SAYS_ZONE.search(str(kafka["client.id"])):
        # Zone router nodes read the zone from it to choose the broker addresses they return.
        kafka["client.id"] = f"{kafka['client.id']}-zone={ours['treeline.zone']}"
    for key in ("bootstrap.servers", "metadata.broker.list"):
        if key in kafka:
            raise ConfigurationRefused(f"remove {key}: discovery provides the address of the active cluster")
    problem = group_name_problem(str(kafka["group.id"])) if "group.id" in kafka else None
    if problem:
        raise ConfigurationRefused(f"group.id is not a valid group name: {problem}")
    for key in ours:
        if key not in _REQUIRED and key not in _OPTIONAL:
            raise ConfigurationRefused(f"{key} is not a key of this client; see the README for its keys")
    for key in _REQUIRED:
        if not isinstance(ours.get(key), str) or not ours[key]:
            raise ConfigurationRefused(f"{key} is missing")
    url = _url(ours["treeline.url"])
    _token(ours["treeline.token"])
    more = {key: check(key, ours.get(key, default)) for key, (default, check) in _OPTIONAL.items()}
    return Configuration(
        url=url,
        token=ours["treeline.token"],
        tenant=ours["treeline.tenant"],
        instance=ours["treeline.instance"],
        environment=ours["treeline.environment"],
        zone=more["treeline.zone"],
        cache_directory=_directory(ours.get("treeline.cache.directory")),
        ca_location=more["treeline.ca.location"],
        start_timeout_s=more["treeline.start.timeout.ms"] / 1000,
        request_timeout_s=more["treeline.request.timeout.ms"] / 1000,
        resend_unknown=more["treeline.unknown.outcome"] == "resend",
        kafka=kafka,
    )


def _url(text: str) -> str:
    parts = urlsplit(text)
    try:
        port_reads = parts.port is None or parts.port > 0
    except ValueError:
        port_reads = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_reads:
        raise ConfigurationRefused("treeline.url must be http://host:port or https://host:port")
    if parts.username or parts.query or parts.fragment:
        raise ConfigurationRefused("treeline.url must not have a user, query or fragment; use treeline.token")
    return text.rstrip("/")


def _token(text: str) -> None:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationRefused("treeline.token contains characters that are not allowed in a token")


def _directory(given: Any) -> Path | None:
    if given is None:
        base = os.environ.get("XDG_CACHE_HOME")
        return (Path(base) if base else Path.home() / ".cache") / "treeline"
    return Path(str(given)).expanduser() if str(given) else None
