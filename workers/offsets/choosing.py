"""Where groups go on, on one cluster: what its logs say now, put into the rules of `domain/target_log.py`."""

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
    """A group that is to go on here from its progress elsewhere."""

    follower: Follower
    topic: str
    progress: Progress
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Going:
    """Where it goes on, and which mode gave it: without origins there is no exact one."""

    chosen: Chosen
    mode: str
    end: int
    """Of the log."""


class Chooser:
    """One cluster's; used by one thread."""

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
        """Also logs that could not be read a moment ago, and are left alone for a while."""
        self._failures = Pauses[Place](_FIRST_PAUSE_SECONDS)

    def choose(self, goals: Sequence[Goal], read: Callable[[], Directory]) -> dict[Follower, Going]:
        """Those whose logs cannot be asked now are left out, and of those far behind all but neighbours in one
        log: it takes time.

        Raises KafkaCallFailed.
        """
        ends = self._offsets.ends({(goal.topic, goal.follower.partition) for goal in goals})
        known = read()  # only now: whoever's records lie before those ends is known
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
        """Each log as soon as it is walked: of many, few are held at once."""
        asked = {place: (logs[place], [goal.progress.read for goal in some]) for place, some in wanted.items()}
        left = dict(asked)
        with contextlib.suppress(KafkaCallFailed):  # it is told below, of the one that fails
            for place, walked in zip(asked, self._logs.walk(asked.values(), known), strict=True):
                del left[place]
                self._failures.went_well(place)
                yield place, walked
        for place, one in left.items():
            with self._one_log(place):
                yield from ((place, walked) for walked in self._logs.walk([one], known))

    @contextmanager
    def _one_log(self, place: Place) -> Iterator[None]:
        """One that cannot be read leaves out its own groups, and is tried again after a pause that grows."""
        try:
            yield
        except KafkaCallFailed as error:
            self._failures.failed(place)
            log.warning(
                "a log cannot be read",
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
            # Kafka takes a negative one for a word of its own.
            if by_time and timestamp is not None and timestamp >= 0:
                wanted.setdefault(_place(goal), set()).add(timestamp)
        return self._offsets.at_timestamps({place: sorted(times) for place, times in wanted.items()})


def _by_time(
    goal: Goal, chosen: Chosen | None, log: TargetPartition, at: Mapping[tuple[Place, int], int | None]
) -> Chosen | None:
    """Not behind the first record of the timestamp; None if that could not be asked."""
    timestamp, offset = goal.progress.timestamp_ms, None
    if timestamp is not None:
        if timestamp >= 0 and (_place(goal), timestamp) not in at:
            return None
        # What the margin puts before 1970 is older than all.
        offset = at[_place(goal), timestamp] if timestamp >= 0 else log.low
    if chosen is not None:
        # Without a record of that time, or of none at all, what the group has not read is all that counts.
        return chosen if offset is None else target_log.with_margin(chosen, max(offset, log.low))
    if timestamp is None:
        return Chosen(offset=log.low, re_read_bound=None, settled=True)
    if offset is None:
        return Chosen(offset=log.end, re_read_bound=None, settled=False)
    return Chosen(offset=min(max(offset, log.low), log.end), re_read_bound=None, settled=True)


def _place(goal: Goal) -> Place:
    return goal.topic, goal.follower.partition
