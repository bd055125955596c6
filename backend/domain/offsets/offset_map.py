"""Records of the offset map, the topic `_treeline.offset-timestamps` that carries groups' progress over the tree.

The key names the group, the partition and the cluster of the commit. The value gives the timestamp and the origin
vector of the records read, with what orders two commits of a group. The topic is compacted; its records are
distributed with copy flags like all others. Source: docs/offsets.md; decision 21.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from backend.domain.names.names import group_name_problem, is_name
from backend.domain.records import origin
from backend.domain.records.origin import Vector

NO_TIMESTAMP = -1
"""Timestamp that Kafka reports for a record without one."""


class MapInvalid(ValueError):
    """Bytes in the topic that are no valid map record; the message says what is wrong."""


@dataclass(frozen=True, order=True, kw_only=True)
class GroupPartition:
    """A group on one partition of a stream, by logical names."""

    tenant: str
    instance: str
    environment: str
    stream: str
    partition: int
    group: str

    @property
    def stream_name(self) -> str:
        """Return the stream's full name, TENANT/INSTANCE/ENVIRONMENT/STREAM."""
        return f"{self.tenant}/{self.instance}/{self.environment}/{self.stream}"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Time and generation of a change to a group's offset on a cluster."""

    committed_at_ms: int
    """Timestamp by the clock of the broker that accepted the commit."""
    generation: int
    """Generation of the environment; it rises with each switch."""

    @property
    def order(self) -> tuple[int, int]:
        """Return a sort key: of two commits of one group and partition, the higher one is the later progress."""
        return self.generation, self.committed_at_ms


@dataclass(frozen=True, kw_only=True)
class End(Moment):
    """Deletion or expiry of the offset; progress that the group had made elsewhere before it no longer counts."""


@dataclass(frozen=True, kw_only=True)
class Progress(Moment):
    """Progress of a group on the cluster where it committed."""

    timestamp_ms: int | None
    """Timestamp of the last record before the offset, less the margin, or the smallest timestamp at or after the
    offset if that is lower. None if there was no such record."""
    vector: Vector | None
    """Origin vector of the records before the offset; None where origins are not written."""
    offset: int
    """Offset on the cluster of the commit; shown to users, never applied elsewhere."""
    passed: Vector = field(default_factory=dict)
    """Origins whose records lay before the offset and are no longer in the log. Where the log of the cluster of
    the commit was compacted, other clusters may still hold such records."""
    whole: bool = True
    """Tells whether `vector` and `passed` cover all that the group has read there; they do not if part of the log
    was deleted before it was indexed."""
    topic_incarnation: int | None = None
    """Incarnation of the topic on the cluster of the commit; in a re-created topic the offset means nothing. None:
    unknown."""

    @property
    def read(self) -> Vector:
        """Return the vector of all records that the group has read, or that no longer exist where it committed."""
        return origin.merge([self.vector or {}, self.passed])

    @property
    def digest(self) -> str:
        """Return a hash that changes when more becomes known about the same commit."""
        return hashlib.sha256(encode_value(self)).hexdigest()[:16]


def encode_key(group_partition: GroupPartition, origin_cluster: str) -> bytes:
    """Encode the record's key."""
    return _json({**asdict(group_partition), "origin_cluster": origin_cluster})


def encode_value(progress: Progress | End) -> bytes:
    """Encode the record's value."""
    if isinstance(progress, End):
        return _json({**asdict(progress), "ended": True})
    vector = progress.vector
    plain = {
        **asdict(progress),
        "vector": None if vector is None else origin.plain(vector),
        "passed": origin.plain(progress.passed),
    }
    return _json(plain)


def decode_key(data: bytes | None) -> tuple[GroupPartition, str]:
    """Return (group partition, cluster of the commit). Raises MapInvalid."""
    plain = _object(data, "key")
    try:
        cluster, group = _name(plain["origin_cluster"]), plain["group"]
        if not isinstance(group, str) or group_name_problem(group):
            raise MapInvalid(f"{_shown(group)} is no name of a group")
        partition = _integer(plain["partition"])
        if not 0 <= partition < 2**31:
            raise MapInvalid(f"{partition} is no partition")
        names = {name: _name(plain[name]) for name in _NAMES}
        return GroupPartition(partition=partition, group=group, **names), cluster
    except KeyError as error:
        raise MapInvalid(f"its key has no {error.args[0]!r}") from error


def decode_value(data: bytes | None) -> Progress | End | None:
    """Decode a progress or its end; None for a tombstone: the group has no offset. Raises MapInvalid."""
    if data is None:
        return None
    plain = _object(data, "value")
    try:
        if plain.get("ended") is True:
            return End(**_moment(plain))
        timestamp, incarnation = plain["timestamp_ms"], plain.get("topic_incarnation")
        return Progress(
            timestamp_ms=None if timestamp is None else _integer(timestamp),
            **_moment(plain),
            vector=_vector(plain["vector"]),
            offset=_counted(plain["offset"]),
            passed=_vector(plain.get("passed")) or {},
            whole=plain.get("whole") is not False,
            topic_incarnation=None if incarnation is None else _counted(incarnation),
        )
    except KeyError as error:
        raise MapInvalid(f"its value has no {error.args[0]!r}") from error


def newest(found: Iterable[tuple[str, Progress | End]]) -> tuple[str, Progress] | None:
    """Return the latest of one group's progress on several clusters, with its cluster; None if it ended.

    Ties are broken the same way on all clusters.
    """
    ranked = max(found, key=lambda each: (*each[1].order, isinstance(each[1], End), each[0]), default=None)
    if ranked is None or isinstance(ranked[1], End):
        return None
    return ranked[0], ranked[1]


_NAMES = ("tenant", "instance", "environment", "stream")
LATEST_MS = 2**62
"""Highest time of a commit that is accepted, whoever wrote the record."""
_MOST_GENERATION = 2**31 - 1
_MOST_DIGITS = 5
"""Most digits of a cluster's number, which has 16 bits."""


def _json(plain: dict[str, Any]) -> bytes:
    return json.dumps(plain, separators=(",", ":"), sort_keys=True).encode()


def _object(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        plain = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise MapInvalid(f"its {what} is no JSON") from error
    if not isinstance(plain, dict):
        raise MapInvalid(f"its {what} is no JSON object")
    return plain


def _name(value: object) -> str:
    # Other programs may write to the topic, and names end up in topics, groups and the database.
    if not isinstance(value, str) or not is_name(value):
        raise MapInvalid(f"{_shown(value)} is no name")
    return value


def _shown(value: object) -> str:
    return ascii(value)[:60]


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise MapInvalid(f"{_shown(value)} is no 64-bit integer")
    return value


def _counted(value: object, most: int = 2**63 - 1) -> int:
    found = _integer(value)
    if not 0 <= found <= most:
        raise MapInvalid(f"{found} is not between 0 and {most}")
    return found


def _moment(plain: dict[str, Any]) -> dict[str, int]:
    return {
        "committed_at_ms": _counted(plain["committed_at_ms"], LATEST_MS),
        "generation": _counted(plain["generation"], _MOST_GENERATION),
    }


def _vector(plain: object) -> Vector | None:
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise MapInvalid(f"the vector {_shown(plain)} is no JSON object")
    vector: Vector = {}
    for number, reached in plain.items():
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
        if not is_number or not isinstance(reached, list) or len(reached) != 2:
            raise MapInvalid(f"{_shown(number)}: {_shown(reached)} is no part of a vector")
        vector[int(number)] = (_counted(reached[0]), _counted(reached[1]))
    return vector
