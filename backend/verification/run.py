"""`treeline verify`: produce uniquely marked records on every cluster, then find exactly one of each everywhere.

It waits first until every leaf has the topic and every distributor runs. After the last record has arrived it goes
on reading for a while, to the ends that the clusters have then, since a duplicate may come late.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from backend.domain.records import copy_flags
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.copy import marked_records
from backend.kafka.copy.marked_records import Incoming, Outgoing, TopicReader
from backend.verification import marks
from backend.verification.checker import Arrival, Checker, ClusterReport
from backend.verification.fleet import Fleet, FleetReader, Member
from backend.verification.marks import Mark

Progress = Callable[[str], None]

_READY_SECONDS = 60.0
_OFFLINE_SECONDS = 15.0
"""Time that a cluster which has just come back may take until it is reported online."""
_PATIENCE_SECONDS = 45.0
"""Time without any arrival after which missing records are given up."""
_SETTLE_SECONDS = 1.0
_READ_SECONDS = 0.1
_PRODUCE_SECONDS = 60.0


class _NotRunning(Exception):
    """The fleet is known, but some of it is not running; the message names it."""


@dataclass
class Verdict:
    """Outcome of a verification; `document` is the contract's JSON."""

    stream: str
    records: int
    reports: dict[str, ClusterReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Descriptions of all problems: the first anomalies, clusters that do not respond."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems and bool(self.reports) and all(report.ok for report in self.reports.values())

    def document(self) -> dict[str, Any]:
        """Return the contract's shape of `treeline verify --json`."""
        clusters = {
            name: {**asdict(report), "flags": dict(sorted(report.flags.items()))}
            for name, report in self.reports.items()
        }
        return {
            "ok": self.ok,
            "stream": self.stream,
            "clusters": clusters,
            "problems": self.problems,
            "seconds": round(self.seconds, 1),
        }


def verify(
    reader: FleetReader,
    stream: str | None,
    records: int,
    internal_stream: str,
    internal_partitions: int,
    flags_header: str,
    progress: Progress,
) -> Verdict:
    """Run one verification of `records` records on each cluster. Raises FleetUnknown."""
    began = time.monotonic()
    fleet = reader.read(stream, internal_stream, internal_partitions)
    verdict = Verdict(stream or internal_stream, records)
    try:
        _wait_until_running(reader, fleet, progress)
    except _NotRunning as error:
        verdict.problems.append(str(error))
    else:
        run = _Run(fleet, records, flags_header, progress)
        try:
            verdict.problems += run.produce_and_read()
        except KafkaCallFailed as error:
            verdict.problems.append(error.reason)
        # Also for an interrupted run: the state up to then.
        verdict.reports = run.checker.reports()
        verdict.problems += run.checker.anomalies
    verdict.seconds = time.monotonic() - began
    return verdict


def _wait_until_running(reader: FleetReader, fleet: Fleet, progress: Progress) -> None:
    began = time.monotonic()
    members = {member.name for member in fleet.members}
    while offline := reader.offline() & members:
        if time.monotonic() - began > _OFFLINE_SECONDS:
            names = ", ".join(sorted(offline))
            raise _NotRunning(f"{names}: offline, so nothing can be verified there; see the Clusters page")
        time.sleep(0.5)
    deadline = time.monotonic() + _READY_SECONDS
    told = 0.0
    while True:
        rows = reader.distributors()
        # A degraded distributor copies everything but what its reason names; the checker finds that out.
        waiting = [
            row for row in rows if row["state"] not in ("running", "degraded") or row["lag_records"] is None
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            reasons = "; ".join(
                f"{row['cluster']}:{row['level']} {row['state']}: {row['reason']}" for row in waiting
            )
            raise _NotRunning(f"{len(waiting)} of {len(rows)} distributors do not run: {reasons}")
        if time.monotonic() - told > 2:
            progress(f"waiting for {len(waiting)} of {len(rows)} distributors")
            told = time.monotonic()
        time.sleep(0.2)


class _Run:
    """One run over a fleet."""

    def __init__(self, fleet: Fleet, records: int, flags_header: str, progress: Progress) -> None:
        self.checker = Checker(fleet.flags)
        self._fleet = fleet
        self._records = records
        self._progress = progress
        self._flags_header = flags_header
        self._id = uuid.uuid4().hex[:12]

    def produce_and_read(self) -> list[str]:
        """Produce on all clusters and read all of them; return problems besides the checker's anomalies."""
        fleet = self._fleet
        with ThreadPoolExecutor(max_workers=len(fleet.members)) as pool:
            # Readers first: they begin at the topics' current ends.
            readers = list(pool.map(self._reader, fleet.members))
            try:
                self._progress(f"producing {self._records} records on each of {len(fleet.members)} clusters")
                failures = [reason for reason in pool.map(self._produce, fleet.members) if reason]
                self._read_all(readers)
            finally:
                for reader in readers:
                    reader.close()
        return failures

    def _reader(self, member: Member) -> TopicReader:
        return TopicReader(
            member.bootstrap_servers,
            member.properties,
            member.topic,
            self._fleet.partitions,
            self._flags_header,
        )

    def _produce(self, member: Member) -> str | None:
        def outcome(sequence: int, acknowledged: bool) -> None:
            (self.checker.produced if acknowledged else self.checker.unknown)(member.name, sequence)

        reason = marked_records.produce(
            member.bootstrap_servers,
            member.properties,
            member.topic,
            self._outgoing(member),
            outcome,
            _PRODUCE_SECONDS,
        )
        return reason and f"{member.name}: not every record was acknowledged: {reason}"

    def _outgoing(self, member: Member) -> Iterator[Outgoing]:
        for sequence in range(self._records):
            mark = Mark(self._id, member.name, sequence)
            yield Outgoing(sequence, self._partition(sequence), marks.key(mark), marks.encode(mark))

    def _partition(self, sequence: int) -> int:
        """Return the partition on which the `sequence`-th record of any cluster is produced."""
        return sequence % self._fleet.partitions

    def _read_all(self, readers: list[TopicReader]) -> None:
        names = [member.name for member in self._fleet.members]
        total = len(names) * len(names) * self._records
        last_arrival = told = time.monotonic()
        while not all(map(self.checker.complete, names)):
            arrived = sum(self._take(name, reader) for name, reader in zip(names, readers, strict=True))
            now = time.monotonic()
            if arrived:
                last_arrival = now
            elif now - last_arrival > _PATIENCE_SECONDS:
                break
            if now - told > 1:
                self._progress(f"{sum(map(self.checker.arrivals, names))} of {total} arrivals")
                told = now
        settled = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < settled:
            for name, reader in zip(names, readers, strict=True):
                self._take(name, reader)
        self._read_to_ends(names, readers)

    def _read_to_ends(self, names: list[str], readers: list[TopicReader]) -> None:
        for name, reader in zip(names, readers, strict=True):
            deadline = time.monotonic() + _PATIENCE_SECONDS
            ends = self._ends(reader, deadline)
            while not reader.reached(ends):
                if time.monotonic() > deadline:
                    raise KafkaCallFailed(f"{name}: its end could not be read; a transaction may be open there")
                self._take(name, reader)

    @staticmethod
    def _ends(reader: TopicReader, deadline: float) -> dict[int, int]:
        """Return the current end offsets; a broker that has just come back may take a while to know them."""
        while True:
            try:
                return reader.ends()
            except KafkaCallFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_READ_SECONDS)

    def _take(self, cluster: str, reader: TopicReader) -> int:
        found = reader.read(_READ_SECONDS)
        for incoming in found:
            self._check(cluster, incoming)
        return len(found)

    def _check(self, cluster: str, incoming: Incoming) -> None:
        mark = marks.decode(incoming.value)
        if mark is None or mark.run != self._id:
            return  # a tenant's record, or another run's
        flags, _ = copy_flags.decode(incoming.flag_headers)
        altered = ""
        if (incoming.partition, incoming.key) != (self._partition(mark.sequence), marks.key(mark)):
            altered = f"partition {incoming.partition} and key {incoming.key!r}"
        arrival = Arrival(
            origin=mark.cluster,
            sequence=mark.sequence,
            partition=incoming.partition,
            offset=incoming.offset,
            order=mark.sequence,
            flags=flags,
            altered=altered,
        )
        self.checker.arrived(cluster, arrival)
