"""Progress of a cluster's groups from one observation to the next: rates, time lags, and times of changes.

It is kept in memory. After a restart, times come from the stored rows, and rates begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from backend.domain.offsets.group_lag import EndHistory, OffsetRate, TimeLag, lag_records
from backend.domain.offsets.observed_group import GroupMember, GroupPartition
from backend.kafka.base.requests import Place
from backend.kafka.groups.group_states import GroupState
from backend.queries.offsets.group_store import StoredGroup
from backend.queries.offsets.observed_groups import GroupRow, group_row
from workers.offsets.group_names import GroupNames


@dataclass(slots=True)
class _PartitionTrack:
    """A group's progress on one partition."""

    since_ms: int
    offset: int | None
    moved_at_ms: int | None = None
    rate: OffsetRate | None = None

    def observe(self, at_ms: int, offset: int | None) -> float | None:
        """Add an observation; return the rate at which the offset grows, if it is known."""
        if offset != self.offset:
            self.offset, self.moved_at_ms = offset, at_ms
        if offset is None:
            self.rate = None
        elif self.rate is None:
            self.rate = OffsetRate(at_ms, offset)
        else:
            return self.rate.observe(at_ms, offset)
        return None


@dataclass(slots=True)
class _GroupTrack:
    """State and diagnosis of a group, since when they hold, and its partitions."""

    state: str
    state_since_ms: int | None
    before: tuple[str, int | None] | None = None
    """Code of the last diagnosis, and since when it holds."""
    partitions: dict[Place, _PartitionTrack] = field(default_factory=dict)


class GroupTracks:
    """Progress of one cluster's groups over time; for one thread."""

    def __init__(self, cluster: str, stored: Iterable[StoredGroup]) -> None:
        """`stored` are the rows of an earlier process."""
        self._cluster = cluster
        self._ends: dict[Place, EndHistory] = {}
        self._tracks: dict[str, _GroupTrack] = {}
        for each in stored:
            self._restore(each)

    @property
    def names(self) -> frozenset[str]:
        """Return the groups that are known."""
        return frozenset(self._tracks)

    def _restore(self, stored: StoredGroup) -> None:
        track = _GroupTrack(stored.state, stored.state_since_ms, (stored.code, stored.since_ms))
        observed_ms = round(1000 * stored.observed_at.timestamp())
        for each in stored.partitions:
            place = each.topic, each.partition
            since_ms = observed_ms if each.observed_since_ms is None else each.observed_since_ms
            track.partitions[place] = _PartitionTrack(since_ms, each.committed_offset, each.moved_at_ms)
            if each.end_offset is not None and place not in self._ends:
                self._ends[place] = EndHistory(observed_ms, each.end_offset)
        self._tracks[stored.technical_group] = track

    def forget_except(self, groups: Iterable[str]) -> None:
        """Forget groups that are gone."""
        kept = set(groups)
        self._tracks = {name: track for name, track in self._tracks.items() if name in kept}

    def observe_ends(self, ends: Mapping[Place, tuple[int, int]], at_ms: int) -> None:
        """Add the ends of logs, given as (first offset, end).

        A log whose end could not be read now keeps its history, until most of the logs that are known are gone.
        """
        for place, (_, end) in ends.items():
            known = self._ends.get(place)
            if known is None:
                self._ends[place] = EndHistory(at_ms, end)
            else:
                known.observe(at_ms, end)
        if len(self._ends) > 2 * len(ends):
            self._ends = {place: history for place, history in self._ends.items() if place in ends}

    def rows(
        self, groups: Iterable[GroupState], ends: Mapping[Place, tuple[int, int]], names: GroupNames, at_ms: int
    ) -> Iterator[GroupRow]:
        """Yield the row of each group, after `observe_ends` with the same ends."""
        for group in groups:
            track = self._tracks.get(group.name)
            if track is None:
                track = self._tracks[group.name] = _GroupTrack(group.state, at_ms)
            elif track.state != group.state:
                track.state, track.state_since_ms = group.state, at_ms
            row = self._row(group, track, ends, names, at_ms)
            track.before = row.diagnosis.code, row.since_ms
            yield row

    def _row(
        self,
        group: GroupState,
        track: _GroupTrack,
        ends: Mapping[Place, tuple[int, int]],
        names: GroupNames,
        at_ms: int,
    ) -> GroupRow:
        owners = {place: each.member_id for each in reversed(group.members) for place in each.partitions}
        places = sorted(group.committed.keys() | owners.keys())
        tracks = track.partitions
        track.partitions = {
            place: tracks.get(place) or _PartitionTrack(at_ms, group.committed.get(place)) for place in places
        }
        partitions = [
            self._partition(place, track.partitions[place], group.committed.get(place), ends, owners, names, at_ms)
            for place in places
        ]
        streams = {each.stream for each in partitions if each.stream is not None}
        place, logical = names.places.read(group.name, streams)
        return group_row(
            cluster=self._cluster,
            technical_group=group.name,
            group=logical,
            place=place,
            state=group.state,
            state_since_ms=track.state_since_ms,
            protocol=group.protocol,
            reason=group.reason,
            members=tuple(
                GroupMember(
                    member_id=each.member_id,
                    client_id=each.client_id,
                    host=each.host,
                    instance_id=each.instance_id,
                    partitions=len(each.partitions),
                )
                for each in group.members
            ),
            partitions=tuple(partitions),
            observed_at=datetime.fromtimestamp(at_ms / 1000, UTC),
            before=track.before,
        )

    def _partition(
        self,
        place: Place,
        track: _PartitionTrack,
        committed: int | None,
        ends: Mapping[Place, tuple[int, int]],
        owners: Mapping[Place, str],
        names: GroupNames,
        at_ms: int,
    ) -> GroupPartition:
        consumed = track.observe(at_ms, committed)
        end = ends[place][1] if place in ends else None
        history = self._ends.get(place) if end is not None else None
        known = TimeLag() if history is None or committed is None else history.time_lag(committed, at_ms)
        return GroupPartition(
            topic=place[0],
            stream=names.streams.get(place[0]),
            partition=place[1],
            committed_offset=committed,
            end_offset=end,
            lag_records=lag_records(committed, end),
            records_per_second=consumed,
            produced_per_second=None if history is None else history.rate,
            time_lag_ms=known.ms,
            time_lag_at_least_ms=known.at_least_ms,
            moved_at_ms=track.moved_at_ms,
            observed_since_ms=track.since_ms,
            member=owners.get(place),
        )
