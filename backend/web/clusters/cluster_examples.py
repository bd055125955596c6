"""Parts of a cluster's description on pages: example names, replica defaults, and client properties."""

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

DEFAULTS_CALLED = {"replication_factor": "Replication factor", "min_insync_replicas": "min.insync.replicas"}
_MADE_UP = StreamName("acme", "retail", "prod", "orders")
_MOST_STREAMS = 3


def names_in_example(connection: Connection, row: ClusterRow) -> tuple[NameOn, ...]:
    """Return some streams and a group by the cluster's formats; the streams are invented if there are none."""
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
    """Return each replica default and its value for so many brokers: `automatic: 3`."""
    in_force = defaults.shown(brokers)
    return {label: _default(getattr(defaults, name), in_force[name]) for name, label in DEFAULTS_CALLED.items()}


def _default(value: int | None, in_force: int | None) -> str:
    if value is None:
        return "automatic" if in_force is None else f"automatic: {in_force}"
    return str(value) if in_force in (None, value) else f"{value}; effective: {in_force}"


def properties_given(text: str) -> dict[str, str]:
    """Parse properties, `key=value`, a line each. Raises ValueInvalid; keys and values are not checked here."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, sign, value = (part.strip() for part in line.partition("="))
        if not line.strip():
            continue
        if not sign or not key:
            raise _wrong(f"line {number} is not key=value")
        if key in found:
            raise _wrong(f"line {number} repeats {key[:60]!r}")
        # A certificate is one line here, its line breaks written as \n.
        found[key] = value.replace("\\n", "\n")
    return found


def properties_shown(properties: Mapping[str, str]) -> str:
    """Return properties as the text of the form, a line each."""
    return "\n".join(f"{key}={value}".replace("\n", "\\n") for key, value in sorted(properties.items()))


def _wrong(problem: str) -> ValueInvalid:
    return ValueInvalid(f"client properties: {problem}", (FieldError("/properties", problem),))
