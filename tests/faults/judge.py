"""The verdict on a run: every cluster is read from offset zero once it is idle, and compared with the history.

Operations: sends of a `History`, with outcomes ok, failed, aborted or unknown; then one `read_committed` read of
every partition of every cluster from its first offset.

The origins come first: a record of unknown outcome that its origin has counts as produced, and must be everywhere;
one that it does not have must be nowhere. Anomalies:
- lost: a record of its origin is not on a cluster; or the origin itself lost what it had acknowledged;
- doubled: a record is on a cluster more than once, its origin included (told apart: a copy that returned, and a
  producer that wrote twice, which is not Treeline's fault);
- reordered: on a partition of a cluster, two records of one origin are in another order than on their origin; or
  on the origin, two records of one producer are in another order than they were sent;
- altered: key, value (null is not empty), timestamp, partition, other headers or their order differ from the send;
  on the origin our own headers too;
- wrong origin: `copy-origin` on a copy does not name the cluster, partition and offset where the record was first
  produced, or the origin lacks a record that another cluster has;
- wrong flags: `copy-flags` on a copy are not those that the tree, or an earlier tree of the run, implies;
- aborted but visible, failed but visible, and records that were never sent;
- not at rest: a distributor that keeps a lag after the faults have ended, or ends that go on growing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from backend.domain.records import copy_flags, origin
from backend.verification.checker import Arrival, Checker, ClusterReport
from backend.verification.fleet import Fleet, FleetReader
from tests.faults.history import FLAGS, ORIGIN, OURS, History, Outcome, fingerprint
from tests.support.kafka.topics import read_from_zero

AT_REST_SECONDS = 2.0
PATIENCE_SECONDS = 90.0
# A broker that comes back is queried soon.
_READER = {"group.id": "ends", "reconnect.backoff.max.ms": 1000}

Ends = dict[tuple[str, int], tuple[int, int]]
Born = dict[int, tuple[int, int, int]]
"""Records on an origin, by sequence: (partition, offset, timestamp in ms)."""


@dataclass
class Verdict:
    """Result of a run; `anomalies` must be empty at the end of every run."""

    sends: dict[str, int] = field(default_factory=dict)
    reports: dict[str, ClusterReport] = field(default_factory=dict)
    anomalies: list[str] = field(default_factory=list)

    def counts(self) -> str:
        sends = ", ".join(f"{number} {outcome}" for outcome, number in self.sends.items())
        found = ", ".join(f"{name} {report.distinct}/{report.expected}" for name, report in self.reports.items())
        return f"sends: {sends}; on clusters: {found}"


def judge(
    history: History,
    fleet: Fleet,
    numbers: Mapping[str, int],
    stream: str,
    routes: Sequence[Mapping[str, Mapping[str, int]]] = (),
) -> Verdict:
    """Read every cluster and compare; `numbers` are the clusters' numbers in origins.

    `routes`: flags of every tree that was in force while records flowed; a copy may have those of any.
    """
    return _Judge(history, fleet, numbers, stream, routes).verdict()


class _Judge:
    def __init__(
        self,
        history: History,
        fleet: Fleet,
        numbers: Mapping[str, int],
        stream: str,
        routes: Sequence[Mapping[str, Mapping[str, int]]],
    ) -> None:
        self._history, self._fleet, self._numbers, self._routes = history, fleet, numbers, routes
        self._stream_id = origin.stream_id(stream)
        self._born: dict[str, Born] = {name: {} for name in history.sends}
        self._lanes: dict[tuple[str, int, int], int] = {}
        self._extra: list[str] = []

    def verdict(self) -> Verdict:
        read = {member.name: self._read(member.name) for member in self._fleet.members}
        checker = Checker(self._fleet.flags, self._flags_of_then)
        for cluster, sends in self._history.sends.items():
            for sequence, send in enumerate(sends):
                if send.outcome is Outcome.OK or (
                    send.outcome is Outcome.UNKNOWN and sequence in self._born[cluster]
                ):
                    checker.produced(cluster, sequence)
                elif send.outcome is Outcome.UNKNOWN:
                    checker.refused(cluster, sequence, "its origin does not have it")
                else:
                    checker.refused(cluster, sequence, _REFUSALS[send.outcome])
        for cluster, messages in read.items():
            for found in messages:
                checker.arrived(cluster, self._arrival(cluster, found))
        reports = checker.reports()
        return Verdict(self._history.counts(), reports, checker.anomalies + self._extra)

    def _flags_of_then(self, origin: str, cluster: str) -> set[int]:
        """Return the flags by all trees of the run; an origin outside a tree had the route of any leaf."""
        return {
            flags[root][cluster]
            for flags in self._routes
            for root in ((origin,) if origin in flags else flags)
            if cluster in flags[root]
        }

    def _read(self, cluster: str) -> list[_Found]:
        """Return the cluster's records of this run, without contents; note its own as produced there."""
        member = next(member for member in self._fleet.members if member.name == cluster)
        found = []
        for message in read_from_zero(member.bootstrap_servers, member.topic):
            mark = self._history.mark(message)
            if mark is None:
                self._extra.append(f"{cluster}: {_place(message)} is a record that nobody sent")
                continue
            partition, offset, timestamp = message.partition(), message.offset(), message.timestamp()[1]
            if mark.cluster == cluster:
                if mark.sequence in self._born[cluster]:
                    copied = any(name == ORIGIN for name, _ in message.headers() or ())
                    whose = "as a copy that came back" if copied else "as its own producer wrote it twice"
                    self._extra.append(f"{cluster}: its own record {mark.sequence} is there again, {whose}")
                self._born[cluster].setdefault(mark.sequence, (partition, offset, timestamp))
            found.append(self._look(cluster, mark.cluster, mark.sequence, message))
        return found

    def _look(self, cluster: str, born_on: str, sequence: int, message: Message) -> _Found:
        headers = tuple(message.headers() or ())
        others = tuple(header for header in headers if header[0] not in OURS)
        ours = tuple(header for header in headers if header[0] in OURS)
        flags, _ = copy_flags.decode([value for name, value in ours if name == FLAGS])
        told = origin.decode([value for name, value in ours if name == ORIGIN])
        sends = self._history.sends.get(born_on, [])
        altered: list[str] = []
        if sequence < len(sends):
            send = sends[sequence]
            if send.fingerprint != fingerprint(message.key(), message.value(), others):
                altered += self._differences(born_on, sequence, message, others)
            if send.timestamp_ms is not None and send.timestamp_ms != message.timestamp()[1]:
                altered.append(f"timestamp {message.timestamp()[1]} instead of {send.timestamp_ms}")
            if send.partition != message.partition():
                altered.append(f"partition {message.partition()} instead of {send.partition}")
            if cluster == born_on and ours and ours != self._history.redraft(born_on, sequence).ours:
                altered.append("headers of ours that were not sent")
        return _Found(
            born_on, sequence, message.partition(), message.offset(), message.timestamp()[1], flags, told, altered
        )

    def _differences(
        self, born_on: str, sequence: int, message: Message, others: tuple[object, ...]
    ) -> Iterator[str]:
        made = self._history.redraft(born_on, sequence)
        pairs = (
            ("key", message.key(), made.key),
            ("value", message.value(), made.value),
            ("headers", others, made.others),
        )
        for what, found, sent in pairs:
            if found != sent:
                yield f"{what} {str(found)[:200]} instead of {str(sent)[:200]}"

    def _arrival(self, cluster: str, found: _Found) -> Arrival:
        altered, flags, order = list(found.altered), found.flags, found.offset
        born = self._born.get(found.born_on, {}).get(found.sequence)
        if cluster == found.born_on:
            flags = 0  # what the producer wrote there was compared as a header
            self._check_lane(cluster, found)
        elif born is None:
            altered.append("no original on its origin")
            order = found.told.offset if found.told else 0
        else:
            partition, order, timestamp = born
            if timestamp != found.timestamp_ms:
                altered.append(f"timestamp {found.timestamp_ms} instead of {timestamp}")
            altered += self._wrong_origin(found, partition, order)
        return Arrival(
            origin=found.born_on,
            sequence=found.sequence,
            partition=found.partition,
            offset=found.offset,
            order=order,
            flags=flags,
            altered=", ".join(altered),
        )

    def _wrong_origin(self, found: _Found, partition: int, offset: int) -> list[str]:
        wanted = (self._numbers[found.born_on], self._stream_id, partition, offset)
        told = found.told and (
            found.told.cluster, found.told.stream_id, found.told.partition, found.told.offset
        )  # fmt: skip
        return [] if told == wanted else [f"origin {told} instead of {wanted}"]

    def _check_lane(self, cluster: str, found: _Found) -> None:
        """Check that on its own cluster the records of one producer in a partition are in the order of sending."""
        sends = self._history.sends[cluster]
        if found.sequence >= len(sends):
            return
        lane = (cluster, sends[found.sequence].lane, found.partition)
        before = self._lanes.get(lane, -1)
        if found.sequence < before:
            self._extra.append(f"{cluster}: its own record {found.sequence} lies behind number {before}")
        self._lanes[lane] = max(before, found.sequence)


@dataclass(frozen=True, slots=True)
class _Found:
    """One record as read; `told` is its `copy-origin`."""

    born_on: str
    sequence: int
    partition: int
    offset: int
    timestamp_ms: int
    flags: int
    told: origin.Origin | None
    altered: list[str]


_REFUSALS = {Outcome.FAILED: "its send had failed", Outcome.ABORTED: "its transaction was aborted"}


def _place(message: Message) -> str:
    return f"partition {message.partition()} offset {message.offset()}"


def wait_until_at_rest(fleet: Fleet, not_idle: Callable[[], list[str]]) -> list[str]:
    """Wait until no distributor has work left and the ends stay unchanged without open transactions.

    Gives up when nothing has changed for a long time; returns what is not idle then, in words.
    """
    with closing(_Readers(fleet)) as readers:
        return _wait_until_at_rest(readers, not_idle)


def _wait_until_at_rest(readers: _Readers, not_idle: Callable[[], list[str]]) -> list[str]:
    ends: Ends = {}
    moved = time.monotonic()
    while True:
        waiting = _told(not_idle)
        try:
            now = readers.ends()
        except Exception as error:  # noqa: BLE001 - a broker that is not back yet
            waiting, now = [*waiting, repr(error)], ends
        waiting += [f"{name}/{p}: a transaction is open" for (name, p), (last, high) in now.items() if last < high]
        if now != ends:
            ends, moved = now, time.monotonic()
        still = time.monotonic() - moved
        if not waiting and still > AT_REST_SECONDS:
            return []
        if still > PATIENCE_SECONDS:
            return [f"not at rest: {what}" for what in waiting]
        time.sleep(0.2)


def _told(look: Callable[[], list[str]]) -> list[str]:
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - the control plane may be what is broken
        return [repr(error)]


def not_idle(reader: FleetReader) -> list[str]:
    """Return the distributors that do not run, or have a lag, in words."""
    return [
        f"{row['cluster']}:{row['level']} {row['state']}, lag {row['lag_records']}, {row['reason']}"
        for row in reader.distributors()
        if row["state"] not in ("running", "degraded") or row["lag_records"] != 0
    ]


class _Readers:
    """Readers of all clusters; opened once, since opening one takes longer than many requests."""

    def __init__(self, fleet: Fleet) -> None:
        self._opened = [
            (member, Consumer({**_READER, "bootstrap.servers": member.bootstrap_servers, "isolation.level": kind}))
            for member in fleet.members
            for kind in ("read_committed", "read_uncommitted")
        ]

    def ends(self) -> Ends:
        """Return (last stable offset, end of the log) of every partition."""
        ends: Ends = {}
        for member, consumer in self._opened:
            for partition in consumer.list_topics(member.topic, 10).topics[member.topic].partitions:
                _, end = consumer.get_watermark_offsets(TopicPartition(member.topic, partition), 10)
                before = ends.get((member.name, partition), (end, end))
                ends[member.name, partition] = (before[0], end)
        return ends

    def close(self) -> None:
        for _, consumer in self._opened:
            consumer.close()


def kinds(verdict: Verdict) -> Counter[str]:
    """Return the number of anomalies by kind."""
    found: Counter[str] = Counter()
    for report in verdict.reports.values():
        for kind in ("missing", "duplicates", "out_of_order", "wrong_flags", "altered", "invented"):
            found[kind] += getattr(report, kind)
    return +found
