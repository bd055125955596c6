"""Leaders and ISRs from the controller's own log: every change in its order, and none is missed.

The log is read with Kafka's own tool. Its records are interpreted as in Kafka's class PartitionRegistration: a
change names only what changes, and one that names a leader raises the leader epoch, even if that broker leads
already.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from backend.estate.plan import Kafka
from backend.estate.programs.jars import JVM_OPTIONS, TOOL_HEAP, classpath, java
from tests.support.drills.clock import Clock

NO_LEADER = -1
_UNCHANGED = -2
_RECORD = re.compile(r"^\| offset: (?P<index>\d+) CreateTime: (?P<at>\d+) .*payload: (?P<payload>\{.*\})$")

What = Literal["registered", "fenced", "unfenced", "shuts down"]


@dataclass(frozen=True)
class Seen:
    """State of the partition from one change on."""

    index: int
    """Index of the change in the controller's log."""
    time_ms: float
    """Milliseconds since the drill began."""
    leader: int
    """Broker id of the leader; -1 without one."""
    leader_epoch: int
    partition_epoch: int
    """Epoch that rises with every change."""
    isr: frozenset[int]
    elr: frozenset[int]
    """Eligible leader replicas: out of sync, but with all committed records (KIP-966)."""
    last_known: frozenset[int]
    """Last known leader, if no replica is left in ISR and ELR."""


@dataclass(frozen=True)
class BrokerSeen:
    """A decision of the controller about a broker; a broker that registers is fenced until it is unfenced."""

    index: int
    time_ms: float
    broker: int
    what: What
    broker_epoch: int


@dataclass(frozen=True)
class History:
    """History from the topic's creation on, when all brokers are up."""

    entries: tuple[Seen | BrokerSeen, ...]

    @property
    def partition(self) -> tuple[Seen, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Seen))

    @property
    def brokers(self) -> tuple[BrokerSeen, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, BrokerSeen))


def read_history(kafka: Kafka, metadata_log: Path, topic: str, clock: Clock) -> History:
    """Read the history of a topic with one partition."""
    return history_of(_dumped(kafka, metadata_log), topic, clock)


def history_of(lines: Iterable[str], topic: str, clock: Clock) -> History:
    """Parse the history from the lines that Kafka's tool writes."""
    return History(tuple(_entries(_records(lines), topic, clock)))


def _dumped(kafka: Kafka, metadata_log: Path) -> list[str]:
    segments = ",".join(str(path) for path in sorted(metadata_log.glob("*.log")))
    shared = [f"-XX:SharedArchiveFile={kafka.archive}"] if kafka.archive else []
    words = ["kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", segments]
    command = [java(), *JVM_OPTIONS, TOOL_HEAP, *shared, "-cp", classpath(kafka.jars), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def _records(lines: Iterable[str]) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Return, of each record, its index, its time of day in milliseconds, its type and its fields."""
    for line in lines:
        if found := _RECORD.match(line):
            payload = json.loads(found["payload"])
            yield int(found["index"]), int(found["at"]), payload["type"], payload["data"]


def _entries(
    records: Iterable[tuple[int, int, str, dict[str, Any]]], topic: str, clock: Clock
) -> Iterator[Seen | BrokerSeen]:
    topic_id: str | None = None
    seen: Seen | None = None
    for index, at, kind, data in records:
        time_ms = clock.of_day(at)
        if kind == "TOPIC_RECORD" and data["name"] == topic:
            topic_id = data["topicId"]
        elif topic_id is None:
            continue
        elif kind == "PARTITION_RECORD" and data["topicId"] == topic_id:
            seen = _created(index, time_ms, data)
            yield seen
        elif kind == "PARTITION_CHANGE_RECORD" and data["topicId"] == topic_id:
            assert seen is not None, f"{topic} is changed before it is there"
            seen = _changed(seen, index, time_ms, data)
            yield seen
        elif kind == "CLEAR_ELR_RECORD" and seen is not None and data["topicName"] in (topic, ""):
            if seen.elr or seen.last_known:
                seen = replace(seen, index=index, time_ms=time_ms, elr=frozenset(), last_known=frozenset())
                yield seen
        elif kind in _OF_BROKERS and (what := _OF_BROKERS[kind](data)):
            yield BrokerSeen(index, time_ms, data["brokerId"], what, data["brokerEpoch"])


def _created(index: int, time_ms: float, data: dict[str, Any]) -> Seen:
    return Seen(
        index=index,
        time_ms=time_ms,
        leader=data["leader"],
        leader_epoch=data["leaderEpoch"],
        partition_epoch=data["partitionEpoch"],
        isr=frozenset(data["isr"]),
        elr=frozenset(data.get("eligibleLeaderReplicas") or ()),
        last_known=frozenset(data.get("lastKnownElr") or ()),
    )


def _changed(before: Seen, index: int, time_ms: float, data: dict[str, Any]) -> Seen:
    # A field that is missing or null did not change.
    sets = {
        name: frozenset(data[field])
        for name, field in (("isr", "isr"), ("elr", "eligibleLeaderReplicas"), ("last_known", "lastKnownElr"))
        if data.get(field) is not None
    }
    after = replace(before, index=index, time_ms=time_ms, partition_epoch=before.partition_epoch + 1, **sets)
    leader = data.get("leader", _UNCHANGED)
    if leader == _UNCHANGED:
        return after
    return replace(after, leader=leader, leader_epoch=before.leader_epoch + 1)


def _registration_changed(data: dict[str, Any]) -> What | None:
    if fenced := data.get("fenced", 0):
        return "fenced" if fenced > 0 else "unfenced"
    return "shuts down" if data.get("inControlledShutdown") else None


_OF_BROKERS: dict[str, Any] = {
    "REGISTER_BROKER_RECORD": lambda data: "registered",
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_changed,
}
