"""Translates consumer group offsets: sets the offsets of groups that have stopped on one cluster on another.

Before the move, `warm_up` finds the groups and reads the target's logs up to where they would resume
(`offsets/target_logs.py`), so that between the last commit on the source and the first poll on the target only the
ends of logs are read. `translate` then reads the final commits, finds the first record on the target that each
group has not read, and sets the offset to it. It can be repeated: the same commits give the same offsets.

After a drain the target has all that groups have read, so offsets are exact in every mode of the environment: the
failure that a margin protects against cannot happen. Without origins only the margin is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backend.cluster_requests.offset_lock import setting_offsets
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.names.names import StreamName
from backend.domain.names.readings import EnvironmentPlace
from backend.domain.offsets import commit_metadata, group_directory
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.commit_rules import CommittedOffset
from backend.domain.offsets.offset_map import NO_TIMESTAMP, GroupPartition, Progress
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.cluster_clients import ClusterClients
from backend.kafka.groups.group_members import GroupMember
from backend.kafka.groups.group_offsets import Refused, Setting
from workers.distribution import checkpoints
from workers.offsets.offset_choice import Chooser, OffsetRequest, Resumption
from workers.offsets.target_logs import TargetLogs
from workers.switches.estate_view import EstateView
from workers.switches.progress import ProgressReader
from workers.switches.topology import Partition, Place, Topology

MEMBERS = "the group has members on the target, so its offsets are left unchanged"
OWN_PROGRESS = "the group made its progress on the target"
SOME_STAY = "the group has members on the source that do not move"
_NOT_ASKED = "the topic is missing or could not be read"
_NO_ANSWER = "the cluster did not answer"


@dataclass(frozen=True, kw_only=True)
class ActiveGroup:
    """A group that has members on a cluster."""

    tenant: str
    instance: str
    environment: str
    group: str
    technical_group: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, kw_only=True)
class Members:
    """Groups with members, by cluster."""

    on_source: tuple[ActiveGroup, ...]
    """Groups that have not closed yet."""
    on_target: tuple[ActiveGroup, ...]
    """Groups with members of other software; their offsets are left unchanged."""


@dataclass(frozen=True, kw_only=True)
class TranslatedOffset:
    """Outcome for a group's offset of one partition."""

    group_partition: GroupPartition
    source_offset: int
    target_offset: int | None
    """Offset that was set on the target; None: none."""
    re_read_bound: int | None
    """Upper bound of re-read records; None: unknown."""
    settled: bool | None
    """True if the target has all records that the group has read."""
    refused: str | None
    """Reason why no offset was set; None: it was set."""


_Key = tuple[str, Place]


class GroupClosing:
    """Translates the offsets of one switch.

    Used by one thread. Calls raise KafkaCallFailed where a cluster does not answer; they can be repeated.
    """

    def __init__(
        self,
        estate: EstateView,
        source: str,
        target: str,
        environments: Collection[EnvironmentPlace],
        streams: Collection[str],
    ) -> None:
        """Translate `streams` (full names) that are distributed and in the given environments."""
        self._estate, self._source, self._target = estate, source, target
        self._environments, self._streams = frozenset(environments), frozenset(streams)
        self._headers = (estate.settings.copy_flags_header, estate.settings.copy_origin_header)
        self._progress = ProgressReader(estate, source)
        self._chooser: Chooser | None = None

    def warm_up(self) -> None:
        """Open all clients and read up to where groups would resume now; repeating it costs little."""
        topology = self._estate.topology()
        committed = self._standing(topology)
        self._resume_points(topology, committed, 0)
        self._active(topology, committed)
        self._target_clients(topology).offsets.open_for(len({self._key(topology, each)[0] for each in committed}))

    def members(self) -> Members:
        """Return the groups of the moved environments with members on either cluster."""
        topology = self._estate.topology()
        committed = self._standing(topology)
        return Members(
            on_source=tuple(self._at_work(topology, committed)),
            on_target=tuple(self._active(topology, committed)),
        )

    def stands(self) -> Mapping[GroupPartition, CommittedOffset]:
        """Return the current commits of the moved environments' groups on the source."""
        return self._standing(self._estate.topology())

    def translate(
        self,
        generation: int,
        flags: int,
        may_go_on: Callable[[], bool] = lambda: True,
        *,
        some_stay: bool = False,
    ) -> list[TranslatedOffset]:
        """Set the offsets that follow from the final commits.

        `flags`: copy flags of records that come from the source to the target. Groups with members on the target
        are left unchanged. `may_go_on` is called right before offsets are set: if it returns False, none is set.
        With `some_stay`, groups with members on the source are left unchanged, since those clients do not move.

        Raises OffsetsPending while a transaction with commits has not ended.
        """
        topology = self._estate.topology()
        # A group without members now has made its last commit before the commits are read below.
        stay = {each.technical_group for each in self._at_work(topology, None)} if some_stay else set()
        here = topology.groups(self._source)
        everywhere = self._standing(topology, stable=True)
        committed = {each: stands for each, stands in everywhere.items() if here.technical_group(each) not in stay}
        if self._chooser is not None:
            self._chooser.retry_all_logs()
        busy = {each.technical_group for each in self._active(topology, committed)}
        own = self._progress_on_target(topology, committed)
        progress, resumptions = self._resume_points(
            topology, {each: stands for each, stands in committed.items() if each not in own}, generation
        )
        settings: dict[str, dict[Place, Setting]] = {}
        for group_partition, resumption in resumptions.items():
            group, place = self._key(topology, group_partition)
            if group not in busy:
                metadata = self._metadata(progress[group_partition], flags)
                settings.setdefault(group, {})[place] = Setting(offset=resumption.chosen.offset, metadata=metadata)
        # Take the lock, so that an offset committer that has read older state cannot overwrite these offsets.
        with setting_offsets(self._estate.engine, self._target) as lock:
            if not may_go_on():
                return []
            answers = self._set(topology, settings, lock) if settings else {}
        found = []
        for group_partition, stands in sorted(committed.items(), key=lambda each: each[0]):
            group, place = self._key(topology, group_partition)
            refused: str | None = _NOT_ASKED
            if group_partition in own:
                refused = OWN_PROGRESS
            elif group in busy:
                refused = MEMBERS
            elif group_partition in resumptions:
                answer = answers.get((group, place), Refused(reason=_NO_ANSWER))
                refused = None if answer is None else MEMBERS if answer.has_members else answer.reason
            found.append(_translated_offset(group_partition, stands, resumptions.get(group_partition), refused))
        staying = sorted(everywhere.keys() - committed.keys())
        return found + [_translated_offset(each, everywhere[each], None, SOME_STAY) for each in staying]

    def _set(
        self, topology: Topology, settings: Mapping[str, Mapping[Place, Setting]], lock: HeldLock
    ) -> Mapping[tuple[str, Place], Refused | None]:
        """Set offsets; return for each the refusal, or None if it is set. Raises LockLost.

        Reading present offsets costs a fraction of setting them again, so unchanged ones are skipped.
        """
        offsets = self._target_clients(topology).offsets
        committed = offsets.committed(settings)
        answers: dict[tuple[str, Place], Refused | None] = {}
        left: dict[str, dict[Place, Setting]] = {}
        for group, by_place in settings.items():
            for place, each in by_place.items():
                if committed.get((group, place)) == CommittedOffset(offset=each.offset, metadata=each.metadata):
                    answers[group, place] = None
                else:
                    left.setdefault(group, {})[place] = each
        lock.check()  # the cluster may have taken long to answer
        return {**answers, **offsets.set(left)}

    def _target_clients(self, topology: Topology) -> ClusterClients:
        return self._estate.clients(topology.clusters[self._target])

    def _metadata(self, progress: Progress, flags: int) -> str:
        timestamp = NO_TIMESTAMP if progress.timestamp_ms is None else progress.timestamp_ms
        return commit_metadata.encode(
            CommitMark(
                flags=flags,
                timestamp_ms=timestamp,
                committed_at_ms=progress.committed_at_ms,
                generation=progress.generation,
                cluster=self._source,
            )
        )

    def _moved(self, topology: Topology) -> dict[str, StreamName]:
        """Return the streams that are moved, by full name."""
        rows = (topology.known.streams[name] for name in self._streams & topology.known.streams.keys())
        return {
            row.stream: StreamName(row.tenant, row.instance, row.environment, row.name)
            for row in rows
            if (row.tenant, row.instance, row.environment) in self._environments
            and self._source in row.incarnations
        }

    def _wanted(self, topology: Topology, groups: Iterable[str]) -> dict[str, dict[Place, GroupPartition]]:
        """Return the source's groups of the environments, with all partitions that they may have committed."""
        names = topology.groups(self._source)
        found: dict[str, dict[Place, GroupPartition]] = {}
        topics = [
            (
                topology.known.streams[stream].technical_names[self._source],
                topology.known.streams[stream].partitions,
            )
            for stream in self._moved(topology)
        ]
        for group in groups:
            for topic, partitions in topics:
                for number in range(partitions):
                    whose = names.group_partition(group, topic, number)
                    if not isinstance(whose, GroupPartition):
                        break
                    found.setdefault(group, {})[topic, number] = whose
        return found

    def _standing(self, topology: Topology, *, stable: bool = False) -> dict[GroupPartition, CommittedOffset]:
        """Return the commits of the groups on the source; fail if one group cannot be queried.

        `stable`: wait for transactions that have not ended (OffsetsPending).
        """
        clients = self._estate.clients(topology.clusters[self._source])
        wanted = self._wanted(topology, clients.groups())
        found = clients.offsets.committed(wanted, stable=stable) if wanted else {}
        silent = [
            group for group, places in wanted.items() if not any((group, place) in found for place in places)
        ]
        if silent:
            raise KafkaCallFailed(f"{self._source} did not return the offsets of group {silent[0]}")
        return {
            wanted[group][place]: stands for (group, place), stands in found.items() if stands.offset is not None
        }

    def _progress_on_target(
        self, topology: Topology, committed: Mapping[GroupPartition, CommittedOffset]
    ) -> set[GroupPartition]:
        """Return the group partitions whose progress was made on the target, so that their offset there stays.

        Their offset on the source was set for that progress, or is not newer.
        """
        ours = {each: stands for each, stands in committed.items() if not stands.is_fresh}
        if not ours:
            return set()
        keys = {self._key(topology, group_partition): group_partition for group_partition in ours}
        wanted: dict[str, list[Place]] = {}
        for group, place in keys:
            wanted.setdefault(group, []).append(place)
        there = self._target_clients(topology).offsets.committed(wanted)

        def is_theirs(
            group_partition: GroupPartition, stands: CommittedOffset, on_target: CommittedOffset | None
        ) -> bool:
            # The group's commit on the target may have expired or been deleted.
            if on_target is None or on_target.offset is None:
                return False
            if stands.mark is None:
                return on_target.is_fresh
            # A commit on the target before the group moved on is older than its commits elsewhere.
            newest = topology.known.generation(self._target, group_partition)
            is_newer = on_target.is_fresh and stands.mark.generation <= newest
            return is_newer or stands.mark.cluster == self._target

        return {
            group_partition
            for key, group_partition in keys.items()
            if is_theirs(group_partition, ours[group_partition], there.get(key))
        }

    def _resume_points(
        self, topology: Topology, committed: Mapping[GroupPartition, CommittedOffset], generation: int
    ) -> tuple[Mapping[GroupPartition, Progress], Mapping[GroupPartition, Resumption]]:
        progress = self._progress.read(topology, committed, generation)
        left = [
            OffsetRequest(
                group_partition=group_partition,
                topic=topology.known.streams[group_partition.stream_name].technical_names[self._target],
                progress=each,
                exact=True,
            )
            for group_partition, each in progress.items()
        ]
        found: dict[GroupPartition, Resumption] = {}
        while left:
            some = self._choose(topology, left)
            if not some:
                break
            found |= some
            # Groups that are far behind need several logs to be searched, one after the other.
            left = [request for request in left if request.group_partition not in some]
        return progress, found

    def _choose(self, topology: Topology, requests: Sequence[OffsetRequest]) -> dict[GroupPartition, Resumption]:
        clients = self._target_clients(topology)
        if self._chooser is None:
            logs = TargetLogs(clients.reader, topology.clusters[self._target].number, self._headers)
            self._chooser = Chooser(self._target, clients.offsets, logs, self._checkpoints)
        return self._chooser.choose(requests, lambda: self._estate.topology().known)

    def _checkpoints(self, places: Collection[Partition]) -> Mapping[Partition, Sequence[Checkpoint]]:
        with self._estate.engine.connect() as connection:
            return checkpoints.read(connection, self._target, places)

    def _key(self, topology: Topology, group_partition: GroupPartition) -> _Key:
        """Return (group, partition) on the target."""
        row = topology.known.streams[group_partition.stream_name]
        group = topology.groups(self._target).technical_group(group_partition)
        return group, (row.technical_names[self._target], group_partition.partition)

    def _at_work(
        self, topology: Topology, committed: Mapping[GroupPartition, CommittedOffset] | None
    ) -> Iterable[ActiveGroup]:
        """Yield the groups that have members on the source and use moved streams.

        `committed`: their commits; None: include groups that may have none.
        """
        clients = self._estate.clients(topology.clusters[self._source])
        wanted = self._wanted(topology, clients.groups())
        here = topology.groups(self._source)
        with_commits = None if committed is None else {here.technical_group(each) for each in committed}
        for group, members in clients.members(sorted(wanted)).items():
            topics = {topic for topic, _ in wanted[group]}
            mine = [each for each in members if each.topics & topics or not each.topics]
            if mine and (with_commits is None or group in with_commits or any(each.topics for each in mine)):
                yield _active_group(next(iter(wanted[group].values())), group, members)

    def _active(
        self, topology: Topology, committed: Mapping[GroupPartition, CommittedOffset]
    ) -> Iterable[ActiveGroup]:
        """Return the groups with commits on the source that have members on the target."""
        group_format = topology.clusters[self._target].group_format
        whose: dict[str, GroupPartition] = {}
        for each in committed:
            place = StreamName(each.tenant, each.instance, each.environment, each.stream)
            whose.setdefault(group_directory.technical_group(group_format, place, each.group), each)
        found = self._target_clients(topology).members(sorted(whose))
        return [_active_group(whose[group], group, members) for group, members in found.items() if members]


def _active_group(group_partition: GroupPartition, group: str, members: tuple[GroupMember, ...]) -> ActiveGroup:
    return ActiveGroup(
        tenant=group_partition.tenant,
        instance=group_partition.instance,
        environment=group_partition.environment,
        group=group_partition.group,
        technical_group=group,
        members=members,
    )


def _translated_offset(
    group_partition: GroupPartition, committed: CommittedOffset, resumption: Resumption | None, refused: str | None
) -> TranslatedOffset:
    done = resumption if refused is None else None
    return TranslatedOffset(
        group_partition=group_partition,
        source_offset=committed.offset or 0,
        target_offset=done.chosen.offset if done else None,
        re_read_bound=done.chosen.re_read_bound if done else None,
        settled=done.chosen.settled if done else None,
        refused=refused,
    )
