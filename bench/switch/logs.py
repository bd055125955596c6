"""Reads a stream's logs on all clusters from the beginning."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from backend.kafka.base.client_config import client_config
from backend.kafka.logs.log_ends import ends, partitions
from backend.kafka.logs.log_ranges import LogRange, messages

SETTLE_SECONDS, STABLE_SECONDS, READ_SECONDS = 180.0, 8.0, 15.0
_REQUEST_SECONDS = 10.0


def settle(status: dict[str, Any], stream: str) -> None:
    """Wait until no log grows any more and groups have had time to read."""
    deadline, before = time.monotonic() + SETTLE_SECONDS, None
    while time.monotonic() < deadline:
        now = [_lengths(row["bootstrap_servers"], stream) for row in status["clusters"].values()]
        if now == before:
            break
        before = now
        time.sleep(STABLE_SECONDS)
    time.sleep(READ_SECONDS)


@dataclass
class Logs:
    """Logs of a stream on all clusters."""

    ids: dict[str, list[list[str]]] = field(default_factory=dict)
    """Cluster -> ids of each partition in log order."""
    born: dict[str, str] = field(default_factory=dict)
    """Id -> the cluster that it was written to, where it has no copy flags."""


def all_of(status: dict[str, Any], stream: str) -> Logs:
    """Read every log, from its beginning to its end."""
    found = Logs()
    for name, row in status["clusters"].items():
        _read(found, name, row["bootstrap_servers"], stream)
    return found


def topic_of(servers: str, stream: str) -> str:
    """Return the stream's technical name on a cluster; the default estate has two formats."""
    for topic in (f"acme-retail-prod-{stream}", f"acme-prod-{stream}"):
        if partitions(client_config(servers, {}), topic, _REQUEST_SECONDS):
            return topic
    raise SystemExit(f"{servers} has no topic of {stream}")


def _lengths(servers: str, stream: str) -> dict[tuple[str, int], tuple[int, int]]:
    config = client_config(servers, {})
    return ends(config, partitions(config, topic_of(servers, stream), _REQUEST_SECONDS), _REQUEST_SECONDS)


def _read(logs: Logs, cluster: str, servers: str, stream: str) -> None:
    wanted = [
        LogRange(log=number, topic=topic, partition=number, first=low, end=end)
        for (topic, number), (low, end) in _lengths(servers, stream).items()
    ]
    found: dict[int, list[str]] = {one.partition: [] for one in wanted}
    for one, some in messages(client_config(servers, {}), wanted):
        for message in some:
            record = (message.value() or b"").decode().rpartition(":")[0]
            found[one.partition].append(record)
            if "copy-flags" not in dict(message.headers() or ()):
                logs.born[record] = cluster
    logs.ids[cluster] = [found[number] for number in sorted(found)]
