"""Choice of offsets from which groups continue on a cluster, by the rules of `domain/offsets/target_log.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets import target_log
from backend.domain.offsets.offset_map import GroupPartition, Progress
from backend.domain.offsets.target_log import ChosenOffset, TargetLog
from backend.domain.tenants.tenant import EXACT, MARGIN
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_offsets import GroupOffsets
from backend.kafka.logs.log_ends import Place
from workers.offsets.directory import Directory
from workers.offsets.target_logs import Partition, ScanMethod, TargetLogs, TargetPartition, first_unread
from workers.pauses import Pauses

log = structlog.get_logger("offsets")

_FIRST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class OffsetRequest:
    """A group that is to continue here from its progress elsewhere."""

    group_partition: GroupPartition
    topic: str
    progress: Progress
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """Offset from which the group continues, and the mode that gave it: without origins there is no exact one."""

    chosen: ChosenOffset
    mode: str
    end: int
    """End of the log."""


class Chooser:
    """Chooser of one cluster; used by one thread."""

    def __init__(
        self,
        cluster: str,
        offsets: GroupOffsets,
        logs: TargetLogs,
        checkpoints: Callable[[Collection[Partition]], Mapping[Partition, Sequence[Checkpoint]]],
    ) -> None:
        self._cluster, self._offsets, self._logs = cluster, offsets, logs
        self._checkpoints = checkpoints
        self._failures = Pauses[Place](_FIRST_PAUSE_SECONDS)

    def retry_all_logs(self) -> None:
        """Query all logs again, including those that are paused after a failure."""
        self._failures = Pauses[Place](_FIRST_PAUSE_SECONDS)

    def choose(
        self, requests: Sequence[OffsetRequest], read: Callable[[], Directory]
    ) -> dict[GroupPartition, Resumption]:
        """Return the choices; groups whose logs cannot be read now are left out.

        Of the groups far behind, only neighbours in one log are included, since a search takes long. Raises
        KafkaCallFailed.
        """
        ends = self._offsets.ends({(request.topic, request.group_partition.partition) for request in requests})
        known = read()  # after the ends, so that every origin before them is known
        logs = self._target_partitions(requests, ends, known)
        ready = [request for request in requests if _place(request) in logs]
        exact = self._exact(ready, logs, known)
        at = self._at_timestamps(ready)
        resumptions: dict[GroupPartition, Resumption] = {}
        for request in ready:
            log, chosen = logs[_place(request)], exact.get(request.group_partition)
            if request.exact and chosen is not None:
                resumptions[request.group_partition] = Resumption(chosen=chosen, mode=EXACT, end=log.end)
            elif chosen is not None or request.progress.vector is None:
                found = _by_time(request, chosen, log, at)
                if found is not None:
                    resumptions[request.group_partition] = Resumption(chosen=found, mode=MARGIN, end=log.end)
        return resumptions

    def _target_partitions(
        self, requests: Sequence[OffsetRequest], ends: Mapping[Place, tuple[int, int]], known: Directory
    ) -> dict[Place, TargetPartition]:
        names = {
            _place(request): (request.group_partition.stream_name, request.group_partition.partition)
            for request in requests
        }
        checkpoints = self._checkpoints(set(names.values()))
        found: dict[Place, TargetPartition] = {}
        for place, (stream, partition) in names.items():
            incarnations = (
                known.incarnations(self._cluster, stream, partition) if stream in known.streams else None
            )
            if place in ends and incarnations is not None:
                low, end = ends[place]
                found[place] = TargetPartition(
                    place=(stream, partition),
                    topic=place[0],
                    incarnations=incarnations,
                    low=low,
                    end=max(low, end),
                    checkpoints=checkpoints.get((stream, partition), ()),
                )
        return found

    def _exact(
        self, requests: Sequence[OffsetRequest], logs: Mapping[Place, TargetPartition], known: Directory
    ) -> dict[GroupPartition, ChosenOffset]:
        on: dict[ScanMethod, dict[Place, list[OffsetRequest]]] = {method: {} for method in ScanMethod}
        for request in requests:
            place = _place(request)
            if request.progress.vector is not None and not self._failures.waits(place):
                on[self._logs.method_for(logs[place], request.progress.read)].setdefault(place, []).append(request)
        found: dict[GroupPartition, ChosenOffset] = {}
        for method in (ScanMethod.HELD, ScanMethod.SCAN):
            for place, scanned in self._scanned(on[method], logs, known):
                for request in on[method][place]:
                    found[request.group_partition] = first_unread(request.progress, scanned, logs[place].low)
        for place, some in list(on[ScanMethod.SEARCH].items())[:1]:
            with self._one_log(place):
                reads = [request.progress.read for request in some]
                together = [some[n] for n in self._logs.neighbours(logs[place], reads)]
                every = self._logs.search(logs[place], [request.progress for request in together], known)
                found |= {request.group_partition: each for request, each in zip(together, every, strict=True)}
        return found

    def _scanned(
        self,
        wanted: Mapping[Place, Sequence[OffsetRequest]],
        logs: Mapping[Place, TargetPartition],
        known: Directory,
    ) -> Iterator[tuple[Place, TargetLog]]:
        """Yield each log as soon as it is scanned, so that few of many logs are held at once."""
        asked = {
            place: (logs[place], [request.progress.read for request in some]) for place, some in wanted.items()
        }
        left = dict(asked)
        with contextlib.suppress(KafkaCallFailed):  # reported below, for the log that fails
            for place, scanned in zip(asked, self._logs.scan(asked.values(), known), strict=True):
                del left[place]
                self._failures.went_well(place)
                yield place, scanned
        for place, one in left.items():
            with self._one_log(place):
                yield from ((place, scanned) for scanned in self._logs.scan([one], known))

    @contextmanager
    def _one_log(self, place: Place) -> Iterator[None]:
        """Leave out only this log's groups if it cannot be read; retry it after a growing pause."""
        try:
            yield
        except KafkaCallFailed as error:
            self._failures.failed(place)
            log.warning(
                "log cannot be read",
                cluster=self._cluster,
                topic=place[0],
                partition=place[1],
                reason=error.reason,
            )
        else:
            self._failures.went_well(place)

    def _at_timestamps(self, requests: Sequence[OffsetRequest]) -> dict[tuple[Place, int], int | None]:
        wanted: dict[Place, set[int]] = {}
        for request in requests:
            by_time = not request.exact or request.progress.vector is None
            timestamp = request.progress.timestamp_ms
            # Kafka gives negative timestamps a meaning of their own.
            if by_time and timestamp is not None and timestamp >= 0:
                wanted.setdefault(_place(request), set()).add(timestamp)
        return self._offsets.at_timestamps({place: sorted(times) for place, times in wanted.items()})


def _by_time(
    request: OffsetRequest,
    chosen: ChosenOffset | None,
    log: TargetPartition,
    at: Mapping[tuple[Place, int], int | None],
) -> ChosenOffset | None:
    """Return a choice at or before the first record of the timestamp; None if that could not be queried."""
    timestamp, offset = request.progress.timestamp_ms, None
    if timestamp is not None:
        if timestamp >= 0 and (_place(request), timestamp) not in at:
            return None
        # A timestamp that the margin puts before 1970 is older than all records.
        offset = at[_place(request), timestamp] if timestamp >= 0 else log.low
    if chosen is not None:
        # Without a timestamp, or a record that late, only what the group has not read counts.
        return chosen if offset is None else target_log.with_margin(chosen, max(offset, log.low))
    if timestamp is None:
        return ChosenOffset(offset=log.low, re_read_bound=None, settled=True)
    if offset is None:
        return ChosenOffset(offset=log.end, re_read_bound=None, settled=False)
    return ChosenOffset(offset=min(max(offset, log.low), log.end), re_read_bound=None, settled=True)


def _place(request: OffsetRequest) -> Place:
    return request.topic, request.group_partition.partition
