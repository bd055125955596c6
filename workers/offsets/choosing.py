"""Choice of the offsets from which groups continue on one cluster, by the rules of `domain/target_log.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.offsets import target_log
from backend.domain.offsets.offset_map import Follower, Progress
from backend.domain.offsets.target_log import Chosen, TargetLog
from backend.domain.tenants.tenant import EXACT, MARGIN
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_offsets import GroupOffsets
from backend.kafka.logs.log_ends import Place
from workers.offsets.directory import Directory
from workers.offsets.target_logs import Partition, TargetLogs, TargetPartition, Way, first_unread
from workers.pauses import Pauses

log = structlog.get_logger("offsets")

_FIRST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A group that is to continue here from its progress elsewhere."""

    follower: Follower
    topic: str
    progress: Progress
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Going:
    """Offset from which the group continues, and the mode that gave it: without origins there is no exact one."""

    chosen: Chosen
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

    def ask_all_again(self) -> None:
        """Query all logs again, including those that are paused after a failure."""
        self._failures = Pauses[Place](_FIRST_PAUSE_SECONDS)

    def choose(self, goals: Sequence[Goal], read: Callable[[], Directory]) -> dict[Follower, Going]:
        """Return the choices; groups whose logs cannot be read now are left out.

        Of the groups far behind, only neighbours in one log are included, since a search takes long. Raises
        KafkaCallFailed.
        """
        ends = self._offsets.ends({(goal.topic, goal.follower.partition) for goal in goals})
        known = read()  # after the ends, so that every origin before them is known
        logs = self._target_partitions(goals, ends, known)
        ready = [goal for goal in goals if _place(goal) in logs]
        exact = self._exact(ready, logs, known)
        at = self._at_timestamps(ready)
        going: dict[Follower, Going] = {}
        for goal in ready:
            log, chosen = logs[_place(goal)], exact.get(goal.follower)
            if goal.exact and chosen is not None:
                going[goal.follower] = Going(chosen=chosen, mode=EXACT, end=log.end)
            elif chosen is not None or goal.progress.vector is None:
                found = _by_time(goal, chosen, log, at)
                if found is not None:
                    going[goal.follower] = Going(chosen=found, mode=MARGIN, end=log.end)
        return going

    def _target_partitions(
        self, goals: Sequence[Goal], ends: Mapping[Place, tuple[int, int]], known: Directory
    ) -> dict[Place, TargetPartition]:
        names = {_place(goal): (goal.follower.stream_name, goal.follower.partition) for goal in goals}
        checkpoints = self._checkpoints(set(names.values()))
        found: dict[Place, TargetPartition] = {}
        for place, (stream, partition) in names.items():
            births = known.births(self._cluster, stream, partition) if stream in known.streams else None
            if place in ends and births is not None:
                low, end = ends[place]
                found[place] = TargetPartition(
                    place=(stream, partition),
                    topic=place[0],
                    births=births,
                    low=low,
                    end=max(low, end),
                    checkpoints=checkpoints.get((stream, partition), ()),
                )
        return found

    def _exact(
        self, goals: Sequence[Goal], logs: Mapping[Place, TargetPartition], known: Directory
    ) -> dict[Follower, Chosen]:
        on: dict[Way, dict[Place, list[Goal]]] = {way: {} for way in Way}
        for goal in goals:
            place = _place(goal)
            if goal.progress.vector is not None and not self._failures.waits(place):
                on[self._logs.way_to(logs[place], goal.progress.read)].setdefault(place, []).append(goal)
        found: dict[Follower, Chosen] = {}
        for way in (Way.HELD, Way.WALK):
            for place, walked in self._walked(on[way], logs, known):
                for goal in on[way][place]:
                    found[goal.follower] = first_unread(goal.progress, walked, logs[place].low)
        for place, some in list(on[Way.SEARCH].items())[:1]:
            with self._one_log(place):
                reads = [goal.progress.read for goal in some]
                together = [some[n] for n in self._logs.neighbours(logs[place], reads)]
                every = self._logs.look_for(logs[place], [goal.progress for goal in together], known)
                found |= {goal.follower: each for goal, each in zip(together, every, strict=True)}
        return found

    def _walked(
        self, wanted: Mapping[Place, Sequence[Goal]], logs: Mapping[Place, TargetPartition], known: Directory
    ) -> Iterator[tuple[Place, TargetLog]]:
        """Yield each log as soon as it is scanned, so that few of many logs are held at once."""
        asked = {place: (logs[place], [goal.progress.read for goal in some]) for place, some in wanted.items()}
        left = dict(asked)
        with contextlib.suppress(KafkaCallFailed):  # reported below, for the log that fails
            for place, walked in zip(asked, self._logs.walk(asked.values(), known), strict=True):
                del left[place]
                self._failures.went_well(place)
                yield place, walked
        for place, one in left.items():
            with self._one_log(place):
                yield from ((place, walked) for walked in self._logs.walk([one], known))

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

    def _at_timestamps(self, goals: Sequence[Goal]) -> dict[tuple[Place, int], int | None]:
        wanted: dict[Place, set[int]] = {}
        for goal in goals:
            by_time = not goal.exact or goal.progress.vector is None
            timestamp = goal.progress.timestamp_ms
            # Kafka gives negative timestamps a meaning of their own.
            if by_time and timestamp is not None and timestamp >= 0:
                wanted.setdefault(_place(goal), set()).add(timestamp)
        return self._offsets.at_timestamps({place: sorted(times) for place, times in wanted.items()})


def _by_time(
    goal: Goal, chosen: Chosen | None, log: TargetPartition, at: Mapping[tuple[Place, int], int | None]
) -> Chosen | None:
    """Return a choice at or before the first record of the timestamp; None if that could not be queried."""
    timestamp, offset = goal.progress.timestamp_ms, None
    if timestamp is not None:
        if timestamp >= 0 and (_place(goal), timestamp) not in at:
            return None
        # A timestamp that the margin puts before 1970 is older than all records.
        offset = at[_place(goal), timestamp] if timestamp >= 0 else log.low
    if chosen is not None:
        # Without a timestamp, or a record that late, only what the group has not read counts.
        return chosen if offset is None else target_log.with_margin(chosen, max(offset, log.low))
    if timestamp is None:
        return Chosen(offset=log.low, re_read_bound=None, settled=True)
    if offset is None:
        return Chosen(offset=log.end, re_read_bound=None, settled=False)
    return Chosen(offset=min(max(offset, log.low), log.end), re_read_bound=None, settled=True)


def _place(goal: Goal) -> Place:
    return goal.topic, goal.follower.partition
