"""What pages say of a cluster's description: names as they would be there, default replicas, and properties."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.names.formats import technical_name, topic_problem
from backend.domain.names.names import StreamName
from backend.domain.offsets.group_directory import technical_group
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.queries.base.naming import declared_streams
from backend.queries.clusters.clusters import ClusterRow
from backend.web.forms.effect import NameOn

DEFAULTS_CALLED = {"replication_factor": "Replication factor", "min_insync_replicas": "In-sync replicas needed"}
_MADE_UP = StreamName("acme", "retail", "prod", "orders")
_MOST_STREAMS = 3


def names_in_example(connection: Connection, row: ClusterRow) -> tuple[NameOn, ...]:
    """Some streams, made up if there are none, and a group, as they are called by the cluster's formats."""
    streams = declared_streams(connection)[:_MOST_STREAMS] or [_MADE_UP]
    shown = []
    for stream in streams:
        topic = technical_name(row.topic_format, stream)
        subject = technical_name(row.subject_format, stream)
        shown.append(NameOn(str(stream), topic, subject, topic_problem(topic)))
    group = technical_group(row.group_format, streams[0], "billing")
    place = f"{streams[0].tenant}/{streams[0].instance}/{streams[0].environment}"
    return (*shown, NameOn(f"group billing of {place}", group, ""))


def defaults_shown(defaults: ReplicaDefaults, brokers: int | None) -> dict[str, str]:
    """Say each default replica setting, and what it comes to with so many brokers: `automatic: 3`."""
    in_force = defaults.shown(brokers)
    return {label: _default(getattr(defaults, name), in_force[name]) for name, label in DEFAULTS_CALLED.items()}


def _default(value: int | None, in_force: int | None) -> str:
    if value is None:
        return "automatic" if in_force is None else f"automatic: {in_force}"
    return str(value) if in_force in (None, value) else f"{value}; {in_force} in force"


def properties_given(text: str) -> dict[str, str]:
    """Properties from text, a line each: `key=value`. Raises ValueInvalid; what they may be is not judged here."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, sign, value = (part.strip() for part in line.partition("="))
        if not line.strip():
            continue
        if not sign or not key:
            raise _wrong(f"line {number} is not key=value")
        if key in found:
            raise _wrong(f"line {number} gives {key[:60]!r} a second time")
        # A certificate is one line here.
        found[key] = value.replace("\\n", "\n")
    return found


def properties_shown(properties: Mapping[str, str]) -> str:
    """The same the other way round."""
    return "\n".join(f"{key}={value}".replace("\n", "\\n") for key, value in sorted(properties.items()))


def _wrong(problem: str) -> ValueInvalid:
    return ValueInvalid(f"client properties: {problem}", (FieldError("/properties", problem),))
