"""Decides whether other clusters have all records that one cluster held at one moment, by partition.

The moment is `mark`: the ends of the source's logs then, including records of open transactions. The vector of a
log up to its marked end is what the furthest task that reads the log has seen (told by its position), merged with
the records from that position to the end, which are read. A target has them all when the committed positions of
its inbound tasks cover that vector (`domain/switch/draining.py`). No timeout and no lag figure is involved.

    mark --> transactions open then are decided --> the vector at the end is known --> each target covers it

Records that retention or compaction removed from the source's log are not waited for: where records of an origin
stay uncovered, the log is searched for them once. Without origins there are no vectors; then positions are
followed from hop to hop (`hops.py`).

The same figures tell which records are lost if the source fails now (`undrained`, all other leaves as targets).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import origin
from backend.domain.records.log_index import Prefix
from backend.domain.records.origin import Vector
from backend.domain.switch import draining
from backend.domain.switch.draining import Reached
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.cluster_clients import ClusterClients
from backend.kafka.logs.log_ranges import LogRange
from workers.distribution import checkpoints
from workers.switches import task_positions
from workers.switches.estate_view import EstateView
from workers.switches.hops import Hops
from workers.switches.marked_log import MarkedLog
from workers.switches.prefixes import AskedPrefixes, PrefixReader, bases_of
from workers.switches.topology import Partition, Place, Topology

_LOOKED_THROUGH = 200_000
"""Limit of offsets of a log that is searched for records that stay uncovered."""
_MOST_MARKS = 10
"""Attempts of a mark to read log ends while topics are created or recreated."""


@dataclass(frozen=True, kw_only=True)
class PartitionDrain:
    """Drain state of one partition for one target."""

    stream: str
    partition: int
    target: str
    is_covered: bool
    missing_records: int
    """Upper bound; 0 if the partition is covered."""
    waits_for: str | None = None
    """Reason why the count is still unknown: open transactions, or tasks that are far behind."""


@dataclass(frozen=True, kw_only=True)
class Drained:
    """Drain state of all partitions at one observation."""

    partitions: tuple[PartitionDrain, ...]

    @property
    def total(self) -> int:
        """Return the number of partitions, counted once per target."""
        return len(self.partitions)

    @property
    def covered(self) -> int:
        """Return the number of partitions that their target has completely."""
        return sum(one.is_covered for one in self.partitions)

    @property
    def missing_records(self) -> int:
        """Return an upper bound of the missing records of all partitions."""
        return sum(one.missing_records for one in self.partitions)

    @property
    def is_drained(self) -> bool:
        """Return whether every target has all records."""
        return self.covered == self.total


@dataclass(frozen=True, kw_only=True)
class Undrained:
    """Offset range of the source whose records no target has."""

    stream: str
    partition: int
    incarnation: int
    """Incarnation of the newest records of the log."""
    first: int
    end: int | None
    """End of the range; None: the source was not queried for the end of its log."""
    records: int | None
    """Upper bound of the records; None with `end`."""


class Drain:
    """Observes the drain of one switch.

    Used by one thread. Calls raise KafkaCallFailed where a cluster does not answer; they can be repeated.
    """

    def __init__(self, estate: EstateView, source: str, targets: Sequence[str], streams: Collection[str]) -> None:
        """Observe `streams` (full names); streams that are not distributed are left out."""
        self._estate, settings = estate, estate.settings
        self._source, self._targets, self._streams = source, tuple(targets), frozenset(streams)
        self._headers = (settings.copy_flags_header, settings.copy_origin_header)
        self._logs: dict[Partition, MarkedLog] = {}
        self._hops = None if settings.origin_header else Hops(estate, source, self._targets)

    def warm_up(self) -> None:
        """Open all clients, and make a first mark and observation; repeating it before the mark costs little."""
        self._keep_logs(self._estate.topology())
        # If a cluster is down, still use what the others report; `mark` itself will raise.
        with contextlib.suppress(KafkaCallFailed):
            self.mark()
            self._warm_reader()
        self.observe()

    def _warm_reader(self) -> None:
        """Read one record or marker of each log, since the first read of a log is the most expensive."""
        clients = self._source_clients(self._estate.topology())
        ranges = [
            LogRange(log=0, topic=log.place[0], partition=log.place[1], first=log.decided - 1, end=log.decided)
            for log in self._logs.values()
            if not log.is_warm and log.decided is not None and log.decided > log.low
        ]
        for _ in clients.reader.messages(ranges):
            pass
        for log in self._logs.values():
            log.is_warm = log.is_warm or (log.decided is not None and log.decided > log.low)

    def mark(self) -> None:
        """Record the present ends of the source's logs. Raises KafkaCallFailed, also if topics keep changing."""
        for _ in range(_MOST_MARKS):
            self._mark_ends()
            if all(log.end is not None for log in self._logs.values()):
                break
            # A topic was created or recreated while ends were read: read all of them again.
        else:
            raise KafkaCallFailed(f"topics on {self._source} keep changing while their log ends are read")
        if self._hops is not None:
            self._hops.mark(self._estate.topology(), list(self._logs))

    def _mark_ends(self) -> None:
        """Read the log ends once; logs that appeared meanwhile have no end afterwards."""
        topology = self._estate.topology()
        self._keep_logs(topology)
        clients, places = self._source_clients(topology), {log.place: log for log in self._logs.values()}
        every, decided = clients.ends(places, undecided_too=True), clients.ends(places)
        silent = places.keys() - every.keys() | places.keys() - decided.keys()
        for place in clients.missing(silent) if silent else ():
            every[place] = decided[place] = (0, 0)
        if silent - every.keys() or silent - decided.keys():
            topic, partition = min(silent)
            raise KafkaCallFailed(f"{self._source} did not return the log end of {topic}/{partition}")
        # The directory read after the ends knows every origin with records before them.
        self._keep_logs(self._estate.topology())
        for place, log in places.items():
            log.low, log.decided, log.end = every[place][0], decided[place][1], every[place][1]
            log.is_decided, log.wanted = log.decided >= log.end, None

    def observe(self) -> Drained:
        """Observe which records the targets have by now."""
        topology = self._estate.topology()
        if self._hops is not None:
            return Drained(partitions=tuple(self._by_hops(topology)))
        try:
            self._find_wanted(topology)
        finally:
            # Also if the source has failed meanwhile: the state of the others tells which records are lost.
            for target in self._targets:
                self._read_covered(topology, target)
        found = [self._judge(topology, log, target) for log in self._logs.values() for target in self._targets]
        return Drained(partitions=tuple(found))

    def undrained(self) -> list[Undrained]:
        """Return the records produced on the source that no target has, by the last mark and observation.

        They would be lost if the source failed now.
        """
        number = self._estate.topology().clusters[self._source].number
        found = []
        for (stream, partition), log in self._logs.items():
            most: Vector = origin.merge(log.covered.values())
            known = Prefix(offset=log.end or 0, seen=log.wanted) if log.wanted is not None else log.furthest
            end = 2**63 - 1 if log.end is None else log.end
            if known is not None and known.offset > end:
                known = None
            first = draining.first_at_risk(number, log.incarnations, log.low, end, known, most)
            if first is None:
                continue
            if log.end is not None and log.wanted is not None:
                end = min(end, log.wanted[number][1] + 1)
            unknown = log.end is None
            found.append(
                Undrained(
                    stream=stream,
                    partition=partition,
                    incarnation=log.incarnations[-1][1],
                    first=first,
                    end=None if unknown else end,
                    records=None if unknown else end - first,
                )
            )
        return found

    def last_produced(self) -> dict[Partition, Reached]:
        """Return the last records produced on the source before the mark, as far as known, by partition."""
        number = self._estate.topology().clusters[self._source].number
        found = ((log.partition, (log.wanted or {}).get(number)) for log in self._logs.values())
        return {partition: reached for partition, reached in found if reached is not None}

    def ends(self) -> dict[Partition, Reached]:
        """Return (incarnation of the newest records, end at the mark) of each log."""
        return {log.partition: (log.incarnations[-1][1], log.end or 0) for log in self._logs.values()}

    def lows(self) -> dict[Partition, int]:
        """Return the beginning of each log, as of the last observation."""
        return {log.partition: log.low for log in self._logs.values()}

    @property
    def is_told(self) -> bool:
        """Return whether the vectors of all logs at the mark are known."""
        return all(log.wanted is not None for log in self._logs.values())

    def source_answers(self) -> bool:
        """Return whether the source is known to be reachable."""
        return self._source in self._estate.topology().known.clusters

    def _source_clients(self, topology: Topology) -> ClusterClients:
        return self._estate.clients(topology.clusters[self._source])

    def _keep_logs(self, topology: Topology) -> None:
        """Keep one log for each partition of the moved streams whose topic is on the source."""
        wanted: dict[Partition, MarkedLog] = {}
        for name in sorted(self._streams & topology.known.streams.keys()):
            for number in range(topology.known.streams[name].partitions):
                place = topology.place(self._source, (name, number))
                incarnations = topology.known.incarnations(self._source, name, number)
                if place is not None and incarnations is not None:
                    before = self._logs.get((name, number))
                    same = before is not None and (before.place, before.incarnations) == (place, incarnations)
                    new = MarkedLog((name, number), place, incarnations)
                    wanted[name, number] = before if same and before else new
        self._logs = wanted

    def _find_wanted(self, topology: Topology) -> None:
        """Determine the vectors at the marked ends, as far as possible now."""
        unknown = [log for log in self._logs.values() if log.wanted is None]
        self._read_furthest(topology, unknown)
        marked = [log for log in unknown if log.end is not None]
        if not marked:
            return
        ends = self._source_clients(topology).ends([log.place for log in marked])
        ready = []
        for log in marked:
            if log.place in ends:
                # The beginning may have moved since; deleted records cannot be read.
                log.low = ends[log.place][0]
                log.is_decided = log.is_decided or ends[log.place][1] >= (log.end or 0)
            if log.low >= (log.end or 0):
                log.wanted = {}
            elif log.is_decided and not log.is_far():
                ready.append(log)
        if not ready:
            return
        asked = list(self._asked(ready).values())
        found = self._prefix_reader(topology).read(asked, topology.known)
        for log in ready:
            log.wanted = log.still_there(found[log.partition, log.end or 0].seen)

    def _prefix_reader(self, topology: Topology) -> PrefixReader:
        clients = self._source_clients(topology)
        return PrefixReader(clients.reader, topology.clusters[self._source].number, self._headers)

    def _asked(self, logs: Sequence[MarkedLog]) -> dict[Partition, AskedPrefixes]:
        far = [log.partition for log in logs if log.furthest is None]
        places: Mapping[Partition, Sequence[Checkpoint]] = {}
        if far:
            with self._estate.engine.connect() as connection:
                places = checkpoints.read(connection, self._source, far)
        found = {}
        for log in logs:
            bases = [] if log.furthest is None else [log.furthest]
            bases += bases_of(places.get(log.partition, ()), log.incarnations)
            found[log.partition] = AskedPrefixes(
                partition=log.partition,
                topic=log.place[0],
                incarnations=log.incarnations,
                low=log.low,
                offsets=(log.end or 0,),
                bases=[base for base in bases if base.offset <= (log.end or 0)],
            )
        return found

    def _read_furthest(self, topology: Topology, logs: Sequence[MarkedLog]) -> None:
        found = task_positions.read(
            topology, self._estate, self._source, {log.partition: log.incarnations for log in logs}
        )
        for log in logs:
            for base in found.get(log.partition, ()):
                beyond = log.end is not None and base.offset > log.end
                if not beyond and (log.furthest is None or base.offset > log.furthest.offset):
                    log.advance_to(base)

    def _read_covered(self, topology: Topology, target: str) -> None:
        """Read the target's vectors of the partitions that were incomplete at the last observation."""
        number = topology.clusters[target].number
        wanted: dict[str, list[Place]] = {}
        by_place: dict[Place, MarkedLog] = {}
        for log in self._logs.values():
            place = topology.place(target, log.partition)
            done = log.wanted is not None and not draining.lacking(log.wanted, log.covered.get(target, {}), number)
            if place is not None and not done:
                by_place[place] = log
                for group in topology.inbound(target, log.partition):
                    wanted.setdefault(group, []).append(place)
        found = self._estate.clients(topology.clusters[target]).positions(wanted)
        for place, log in by_place.items():
            incarnation = topology.known.streams[log.partition[0]].incarnations[target]
            told = [each.mark for each in found.get(place, {}).values()]
            # Marks for an earlier incarnation of the topic say nothing about the present one.
            log.covered[target] = origin.merge(
                mark.covered for mark in told if mark.target_incarnation in (0, incarnation)
            )

    def _judge(self, topology: Topology, log: MarkedLog, target: str) -> PartitionDrain:
        covered, number = log.covered.get(target, {}), topology.clusters[target].number
        held = max(0, (log.end or 0) - log.low)
        waits_for = None
        if log.wanted is None:
            missing = held if log.end is not None else 0
            if log.furthest is not None and log.end is not None:
                behind = draining.lacking(log.furthest.seen, covered, number)
                since = draining.most_missing(behind, covered, held)
                missing = min(held, log.end - max(log.furthest.offset, log.low) + since)
            waits_for = "the tasks that read it are far behind"
            if not log.is_decided:
                waits_for = "transactions that were open at the mark"
            if log.end is None:
                waits_for = "its log end"
            is_covered = False
        else:
            lacks = draining.lacking(log.wanted, covered, number)
            stuck = self._stuck(topology, log, target, lacks)
            if stuck:
                self._search_source(topology, log, stuck)
                lacks = draining.lacking(log.wanted, covered, number)
            missing, is_covered = draining.most_missing(lacks, covered, held), not lacks
        return PartitionDrain(
            stream=log.partition[0],
            partition=log.partition[1],
            target=target,
            is_covered=is_covered,
            missing_records=missing,
            waits_for=waits_for,
        )

    def _stuck(self, topology: Topology, log: MarkedLog, target: str, lacks: Vector) -> Vector:
        """Return which of the lacking records may no longer be in the source's log."""
        compacted = "compact" in topology.known.streams[log.partition[0]].cleanup_policy
        source = topology.clusters[self._source].number
        return {
            number: reached
            for number, reached in log.long_lacked(target, lacks).items()
            # A record that was produced here is at its offset, unless the log was compacted.
            if number != source or compacted or reached[1] < log.low
        }

    def _search_source(self, topology: Topology, log: MarkedLog, stuck: Vector) -> None:
        """Search the source's log for lacking records, and stop waiting for those that it does not have."""
        assert log.wanted is not None
        with self._estate.engine.connect() as connection:
            places = checkpoints.read(connection, self._source, [log.partition]).get(log.partition, ())
        gone = draining.gone_before(stuck, bases_of(places, log.incarnations), log.low)
        log.gone |= {number: (reached, {}) for number, reached in gone.items()}
        left = {number: reached for number, reached in stuck.items() if number not in gone}
        if left and (log.end or 0) - log.low <= _LOOKED_THROUGH:
            asked = self._asked([log])[log.partition]
            present = self._prefix_reader(topology).present(asked, log.end or 0, topology.known)
            log.gone |= {number: (reached, present) for number, reached in left.items()}
        log.wanted = log.still_there(log.wanted)

    def _by_hops(self, topology: Topology) -> Iterable[PartitionDrain]:
        assert self._hops is not None
        for (stream, partition), target, missing in self._hops.observe(topology):
            yield PartitionDrain(
                stream=stream,
                partition=partition,
                target=target,
                is_covered=missing == 0,
                missing_records=missing,
            )
