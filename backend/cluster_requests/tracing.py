"""Trace of one record on all clusters of a tree, concurrently, each with a time limit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from backend.cluster_requests.trace_facts import TraceFacts
from backend.domain.base.errors import ClusterSilent, ClusterUnreachable, NotFound, StateConflict
from backend.domain.distribution import trace
from backend.domain.distribution.trace import CameFrom, Marks, Missing
from backend.domain.records.origin import Origin
from backend.domain.tree.routes import Edge
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.record_search import Judge, Log, LogRecord, NotThere

SECONDS = 5.0
"""Seconds that one cluster has for its answer."""


@dataclass(frozen=True)
class TracedOrigin:
    """Place where the record was first produced; `present`: it is still there, None if that is unknown."""

    cluster: str | None
    number: int
    """Number of the cluster, which may no longer be a leaf."""
    offset: int
    timestamp_ms: int
    present: bool | None


@dataclass(frozen=True)
class TracedCopy:
    """One copy; `came_from` and `arrived_at_ms` are None where unknown."""

    cluster: str
    offset: int
    flags: int
    came_from: CameFrom | None
    arrived_at_ms: int | None


@dataclass(frozen=True)
class Trace:
    """One record on all clusters of its tree; copies are in the order of their route."""

    origin: TracedOrigin
    copies: tuple[TracedCopy, ...]
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class _Wanted:
    """The record to find; `certain` if its incarnation was read and not guessed."""

    origin: Origin
    timestamp_ms: int
    certain: bool


@dataclass(frozen=True)
class _Find:
    record: LogRecord
    marks: Marks
    arrived_at_ms: int | None


_Outcome = _Find | NotThere | KafkaCallFailed
"""Outcome of a search on one cluster; KafkaCallFailed if it did not answer, or not in time."""


def run(facts: TraceFacts, cluster: str, offset: int) -> Trace:
    """Trace the record at an offset of a cluster.

    Raises NotFound (no record there, with the reason), ClusterSilent, StateConflict (a copy that names no origin).
    """
    record = _record_at(facts, cluster, offset)
    wanted = _wanted(facts, cluster, record)
    if wanted.certain and not _is_first(facts, cluster, record, wanted):
        wanted = _produced_here(facts, cluster, record)
    return _trace(facts, wanted, _search_all(facts, wanted))


def _record_at(facts: TraceFacts, cluster: str, offset: int) -> LogRecord:
    where = f"{facts.stream.stream}, partition {facts.partition} on {cluster}"
    try:
        with _log(facts, cluster) as log:
            there = log.range()
            if not there.low <= offset < there.high:
                said = f"has offsets {there.low} to {there.high - 1}" if there.high > there.low else "is empty"
                raise NotFound(f"{where} {said}: there is no offset {offset}")
            record = log.at(offset)
            if record is not None:
                return record
            if log.at_uncommitted(offset) is not None:
                raise NotFound(f"{where}: offset {offset} is of an aborted transaction, no reader ever gets it")
            raise NotFound(
                f"{where}: no record is at offset {offset}: it is a transaction marker, or was compacted away"
            )
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure


def _wanted(facts: TraceFacts, cluster: str, record: LogRecord) -> _Wanted:
    marks = _marks(facts, record)
    if trace.is_copy(marks, facts.stream_id, facts.partition, facts.clusters[cluster]):
        assert marks.origin is not None
        return _Wanted(marks.origin, record.timestamp_ms, certain=True)
    if marks.flags and marks.origin is None:
        raise StateConflict(
            f"the record at offset {record.offset} of {cluster} has copy flags but names no origin: it was copied "
            "while origins were switched off"
        )
    return _produced_here(facts, cluster, record)


def _produced_here(facts: TraceFacts, cluster: str, record: LogRecord) -> _Wanted:
    incarnation = facts.stream.incarnation(cluster, facts.partition, record.offset)
    record_origin = Origin(facts.clusters[cluster], facts.stream_id, facts.partition, record.offset, incarnation)
    return _Wanted(record_origin, record.timestamp_ms, certain=False)


def _is_first(facts: TraceFacts, cluster: str, record: LogRecord, wanted: _Wanted) -> bool:
    """Return whether no earlier record of the log has the same origin.

    If one has, that is the copy: this record got its headers from a stream processor, and was produced here.
    """
    home = facts.names.get(wanted.origin.cluster)
    at_home = _search(facts, home, wanted) if home is not None and home in facts.places else None
    # A stream processor may have changed the timestamp: if the origin has the same one, search from there.
    since_ms = wanted.timestamp_ms if isinstance(at_home, _Find) else 0
    try:
        with _log(facts, cluster) as log:
            first = log.find(_judge(facts, cluster, wanted), since_ms)
    except KafkaCallFailed as failure:
        raise ClusterSilent(f"{cluster} does not answer: {failure.reason}") from failure
    return isinstance(first, NotThere) or first.offset == record.offset


def _search_all(facts: TraceFacts, wanted: _Wanted) -> dict[str, _Outcome]:
    with ThreadPoolExecutor(len(facts.places)) as threads:
        searches = {name: threads.submit(_search, facts, name, wanted) for name in facts.places}
        return {name: search.result() for name, search in searches.items()}


def _search(facts: TraceFacts, cluster: str, wanted: _Wanted) -> _Outcome:
    try:
        with _log(facts, cluster) as log:
            if facts.clusters[cluster] == wanted.origin.cluster:
                return _at_home(facts, log, wanted)
            found = log.find(_judge(facts, cluster, wanted), wanted.timestamp_ms)
            if isinstance(found, NotThere):
                return found
            return _Find(found, _marks(facts, found), log.arrived_at_ms(found, compacted=facts.stream.compacted))
    except KafkaCallFailed as failure:
        return failure


def _at_home(facts: TraceFacts, log: Log, wanted: _Wanted) -> _Outcome:
    there = log.range()
    record = log.at(wanted.origin.offset) if there.low <= wanted.origin.offset < there.high else None
    # Another record has the offset if the topic was re-created since.
    if record is None or record.timestamp_ms != wanted.timestamp_ms:
        return NotThere(later_there=True)
    return _Find(record, _marks(facts, record), None)


def _judge(facts: TraceFacts, cluster: str, wanted: _Wanted) -> Judge:
    number, sought = facts.clusters[cluster], (wanted.origin.incarnation, wanted.origin.offset)

    def judge(record: LogRecord) -> int | None:
        marks = _marks(facts, record)
        found = marks.origin
        if found is None or found.cluster != wanted.origin.cluster:
            return None
        if not trace.is_copy(marks, facts.stream_id, facts.partition, number):
            return None
        if not wanted.certain and (found.offset, record.timestamp_ms) == (sought[1], wanted.timestamp_ms):
            return 0
        reached = (found.incarnation, found.offset)
        return (reached > sought) - (reached < sought)

    return judge


def _marks(facts: TraceFacts, record: LogRecord) -> Marks:
    return trace.read_marks(record.headers, facts.flags_header, facts.origin_header)


@contextmanager
def _log(facts: TraceFacts, cluster: str) -> Iterator[Log]:
    try:
        log = Log(facts.places[cluster], SECONDS)
    except ClusterUnreachable as error:
        # For example a secret that cannot be resolved, named by its reference.
        raise KafkaCallFailed(error.detail) from error
    try:
        yield log
    finally:
        log.close()


# --- the answer


def _trace(facts: TraceFacts, wanted: _Wanted, found: dict[str, _Outcome]) -> Trace:
    home = facts.names.get(wanted.origin.cluster)
    route = facts.route(wanted.origin.cluster)
    copies = [
        _copy(facts, wanted, home, name, outcome)
        for name, outcome in found.items()
        if isinstance(outcome, _Find) and name != home
    ]
    unknown = {
        name: f"{name} does not answer: {o.reason}" for name, o in found.items() if isinstance(o, KafkaCallFailed)
    }
    unknown |= facts.unreachable
    holders = {copy.cluster for copy in copies} | ({home} if home is not None else set())
    missing = [
        Missing(cluster=name, state="unknown", reason=f"unknown: {unknown[name]}")
        if name in unknown
        else Missing(
            cluster=name, state="absent", reason=_why_absent(facts, name, found.get(name), route, holders, unknown)
        )
        for name in facts.clusters
        if name not in holders
    ]
    return Trace(
        origin=_origin(wanted, home, found),
        copies=tuple(sorted(copies, key=lambda copy: trace.hops(copy.flags))),
        missing=tuple(missing),
    )


def _origin(wanted: _Wanted, home: str | None, found: dict[str, _Outcome]) -> TracedOrigin:
    at_home = found.get(home) if home is not None else None
    present = isinstance(at_home, _Find) if isinstance(at_home, _Find | NotThere) else None
    record_origin = wanted.origin
    return TracedOrigin(home, record_origin.cluster, record_origin.offset, wanted.timestamp_ms, present)


def _copy(facts: TraceFacts, wanted: _Wanted, home: str | None, cluster: str, find: _Find) -> TracedCopy:
    produced, arrived = wanted.timestamp_ms, find.arrived_at_ms
    came_from = (
        None
        if home is None
        else trace.came_from(facts.versions, home, cluster, find.marks.flags, produced, arrived)
    )
    return TracedCopy(cluster, find.record.offset, find.marks.flags, came_from, arrived)


def _why_absent(
    facts: TraceFacts,
    cluster: str,
    outcome: _Outcome | None,
    route: Sequence[Edge],
    holders: Collection[str],
    unknown: Collection[str],
) -> str:
    if cluster in facts.absent:
        return facts.absent[cluster]
    if not facts.stream.distributed:
        return "the stream is not distributed"
    later_there = isinstance(outcome, NotThere) and outcome.later_there
    return trace.why_absent(cluster, route, holders, unknown, facts.distributors, later_there)
