"""Schemas of the large company on its primary, a broker of the benchmark's own: a subject for each stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from company import STREAMS, TENANTS

from backend.registry.records import Content, Record, SchemaVersion, encode
from tests.support.kafka.topics import create_topic, produce

TOPIC, VERSIONS = "_schemas", 2
SUBJECT = "tenant-007-main-prod-stream-0007-value"


def fill(servers: str) -> int:
    """Write the schemas as a registry does; return the number of subjects."""
    create_topic(servers, TOPIC, cleanup_policy="compact")
    pairs = map(encode, _versions())
    produce(servers, TOPIC, [{"key": key, "value": value} for key, value in pairs])
    return STREAMS


def _versions() -> Iterator[Record]:
    """Yield versions of a dozen fields each; every version has a field more than the one before."""
    for number in range(STREAMS):
        for version in range(1, VERSIONS + 1):
            fields = [{"name": f"field_{each}", "type": "string", "default": ""} for each in range(11 + version)]
            text = json.dumps({"type": "record", "name": f"Record{number}", "fields": fields})
            yield SchemaVersion(
                subject=f"tenant-{number % TENANTS:03}-main-prod-stream-{number:04}-value",
                version=version,
                id=VERSIONS * number + version,
                content=Content(text=text),
            )
