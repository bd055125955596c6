"""Write golden files for events that have none yet: `python -m tests.golden.add`.

An existing file is never overwritten. To change an event's shape, raise its version, add an upcaster, and run this
for the new version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from backend.domain.base.event import Event
from backend.eventlog.registry import EventRegistry, domain_registry

FOLDER = Path(__file__).resolve().parent / "events"
MANIFEST = FOLDER / "MANIFEST.sha256"
# Realistic values for fields by their names.
VALUES: dict[str, Any] = {
    "tenant": "acme",
    "instance": "retail",
    "environment": "prod",
    "stream": "orders",
    "application": "billing",
    "operation": "produce",
    "groups": ["billing", "billing-replay"],
    "by": "owner",
    "cluster": "cluster-1",
    "clusters": ["cluster-1", "cluster-2"],
    "bootstrap_servers": "10.0.0.1:9092,10.0.0.2:9092",
    "name": "cluster-1",
    "target": "cluster-4",
    "targets": [["cluster-1", 1, "cluster-2"], ["cluster-2", 1, "cluster-1"]],
    "previous": "cluster-5",
    "primary_cluster": "cluster-1",
    "zone": "az1",
    "holder": "worker-1:4711",
    "leases": [["distributor:cluster-1:3:0", 4, "worker-2:812", 5], ["reconcile", 7, None, 8]],
    "topic_format": "{tenant}-{instance}-{environment}-{topic}",
    "group_format": "{tenant}-{instance}-{environment}-{group}",
    "subject_format": "{tenant}-{instance}-{environment}-{topic}",
    "kafka_cluster_id": "H49XL_QGaYeD2fVpor844g",
    "topic_id": "EgFF69Dpxl4YBp8rJvgSPA",
    "cleanup_policy": "delete",
    "config": {"compression.type": "zstd", "segment.bytes": "268435456"},
    "compression": "zstd",
    "offset_mode": "margin",
    "tree": "main",
    "properties": {"sasl.password": "${env:C6}", "security.protocol": "SASL_SSL"},
    "user": "ada",
    "role": "operator",
    "membership": "owner",
    "token": "ci",
    "expires_at": "2027-03-01T12:30:00.123456+00:00",
    "switch": "9f2c4e61b0d3",
    "source": "cluster-1",
    "mode": "planned",
    "phase": "draining",
    "drain": "target",
    "placement": "3f2a9c1b7e55",
    "topics": ["acme-retail-prod-orders"],
    "summary": {"moves": 12, "lower_bound": 12, "violations": {}},
    "measured": {"clients": 22, "milliseconds": 130},
    "report": {"not_drained_records": 0, "re_read_bound": 12},
    "root": {"level": 1, "children": [{"cluster": "cluster-1"}, {"cluster": "cluster-2"}]},
}


def path_of(name: str, version: int) -> Path:
    return FOLDER / f"{name}.v{version}.json"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_manifest() -> dict[str, str]:
    lines = MANIFEST.read_text().splitlines() if MANIFEST.exists() else []
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def add_missing(registry: EventRegistry) -> list[Path]:
    """Write missing files and return their paths."""
    FOLDER.mkdir(exist_ok=True)
    added = []
    for name, cls in sorted(registry.classes.items()):
        path = path_of(name, cls.schema_version)
        if path.exists():
            continue
        full, sparse = (example(registry, cls, full=full) for full in (True, False))
        examples = [full] if full == sparse else [full, sparse]
        document = {"name": name, "schema_version": cls.schema_version, "examples": examples}
        path.write_text(json.dumps(document, indent=1) + "\n")
        added.append(path)
    manifest = read_manifest() | {path.name: sha256(path) for path in added}
    MANIFEST.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(manifest.items())))
    return added


def example(registry: EventRegistry, cls: type[Event], *, full: bool) -> dict[str, Any]:
    """Return the stored data of one event: every field filled, or as little as its types allow."""
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = {field.name: _value(field.name, hints[field.name], full) for field in fields}
    return registry.encode(registry.decode(cls.stored_name, cls.schema_version, data))


def _value(name: str, kind: Any, full: bool) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if not full and type(None) in inner:
            return None
        return _value(name, next(part for part in inner if part is not type(None)), full)
    holds_parts = origin is tuple and dataclasses.is_dataclass(inner[0])
    if (full or kind is str or origin is None) and name in VALUES and not holds_parts:
        return VALUES[name]
    if origin is tuple and inner[-1] is not ...:
        return [_value(name, part, full) for part in inner]
    if origin is tuple:
        return [_value(name.removesuffix("s"), inner[0], full)] * 2 if full else []
    if origin is dict:
        return {"key": _value(name, inner[1], full)} if full else {}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return {each.name: _value(each.name, hints[each.name], full) for each in dataclasses.fields(kind)}
    return {str: name, int: 7, float: 0.5, bool: True}[kind]


if __name__ == "__main__":
    add_missing(domain_registry())
