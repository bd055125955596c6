"""Queries clusters for a switch plan, in parallel, each for a few seconds at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from backend.domain.base.errors import ClusterUnreachable
from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import OWN_GROUPS, Task
from backend.domain.names.readings import Reader
from backend.domain.records.incarnations import incarnations_of
from backend.domain.records.marks import MetadataInvalid, Position, decode_metadata
from backend.domain.records.origin import Vector
from backend.domain.switch.switch_facts import ClusterAnswers, GroupFact, PartitionOf, SwitchRequest
from backend.domain.switch.switch_lag import lacking
from backend.domain.switch.switch_what_if import clusters_gone
from backend.kafka.admin.topics import TopicAdmin
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_members import GroupAdmin
from backend.kafka.groups.group_offsets import GroupOffsets
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from backend.switching.reading import PlanInput

MOST_AT_ONCE = 16
MOST_GROUPS = 1000
"""Limit per cluster of groups whose members and offsets are requested."""

Topics = Mapping[str, str]
"""STREAM -> technical name on one cluster."""


@dataclass
class _Answer:
    """Answer of one cluster; each part is filled only where it was requested."""

    partitions: dict[str, int] = field(default_factory=dict)
    ends: dict[PartitionOf, tuple[int, int]] = field(default_factory=dict)
    commits: dict[tuple[str, PartitionOf], int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    groups: tuple[GroupFact, ...] = ()
    outgoing: dict[PartitionOf, list[Position]] = field(default_factory=dict)
    covered: dict[PartitionOf, list[Vector]] = field(default_factory=dict)


def query_clusters(ground: PlanInput, settings: Settings, request: SwitchRequest) -> ClusterAnswers:
    """Query the source, the target, and the targets of the source's distributors for positions and groups."""
    gone = clusters_gone(ground.facts.clusters, request.without)
    silent = dict.fromkeys(sorted(gone & {request.source, request.target}), "supposed to be gone")
    hops = {target for (cluster, _), target in ground.facts.targets.items() if cluster == request.source}
    wanted = sorted(
        name
        for name in {request.source, request.target} | hops
        if ground.facts.is_online(name) and name not in gone
    )
    if not wanted or not ground.facts.streams:
        return ClusterAnswers(silent=silent)
    look = _ClusterQueries(ground, settings, request)
    with ThreadPoolExecutor(min(len(wanted), MOST_AT_ONCE)) as threads:
        answers = dict(zip(wanted, threads.map(look.at, wanted), strict=True))
    silent |= {name: found for name, found in answers.items() if isinstance(found, str)}
    said = {name: found for name, found in answers.items() if isinstance(found, _Answer)}
    source, target = said.get(request.source), said.get(request.target)
    return ClusterAnswers(
        silent=silent,
        partitions={(name, stream): n for name, one in said.items() for stream, n in one.partitions.items()},
        queried=frozenset(said.keys() & {request.source, request.target}),
        lacking={} if source is None or target is None else look.lacking(source.ends, target, said.values()),
        in_transit=look.in_transit(target, said.values()) if source is None and target is not None else None,
        ends={} if source is None else {place: end for place, (_, end) in source.ends.items()},
        target_ends={} if target is None else {place: end for place, (_, end) in target.ends.items()},
        commits={} if source is None else source.commits,
        names={} if source is None else source.names,
        groups={name: one.groups for name, one in said.items()},
    )


class _ClusterQueries:
    """One round of requests to several clusters."""

    def __init__(self, ground: PlanInput, settings: Settings, request: SwitchRequest) -> None:
        self._ground, self._request = ground, request
        self._buckets, self._seconds = ground.buckets, settings.probe_timeout_seconds
        self._environments = sorted({stream.place for stream in ground.facts.streams})

    def at(self, cluster: str) -> _Answer | str:
        """Return a cluster's answer, or the reason why it gave none."""
        row = self._ground.clusters[cluster]
        try:
            # First check that the cluster answers: otherwise a client would wait for each of its requests.
            topics = self._topics(cluster)
            admin = TopicAdmin(row.bootstrap_servers, row.properties, self._seconds)
            found = admin.observe(topics.values()).topics
            config = client_config(row.bootstrap_servers, row.properties)
            answer = _Answer(partitions={s: found[t].partitions for s, t in topics.items() if t in found})
            offsets = GroupOffsets(config)
            if cluster == self._request.source:
                self._ask_source(answer, offsets, GroupAdmin.open(config, self._seconds), row, topics)
            else:
                answer.outgoing = self._outgoing(cluster, offsets, topics)
            if cluster == self._request.target:
                groups = GroupAdmin.open(config, self._seconds)
                answer.groups = self._groups(groups, row, topics, groups.names())
                answer.covered = self._covered(cluster, offsets, topics)
                places = self._places({stream: topics[stream] for stream in answer.partitions})
                answer.ends = {places[place]: found for place, found in offsets.ends(places).items()}
        except KafkaCallFailed as error:
            return error.reason
        except ClusterUnreachable as error:
            return error.detail
        return answer

    def lacking(
        self, ends: Mapping[PartitionOf, tuple[int, int]], target: _Answer, all_: Iterable[_Answer]
    ) -> dict[PartitionOf, int]:
        """Return how many records the target lacks of logs with these ends, by partition."""
        outgoing = _outgoing(all_)
        rows = {row.stream: row for row in self._ground.streams}
        found = {}
        for place, (low, end) in ends.items():
            row = rows[place[0]]
            found[place] = lacking(
                low=low,
                end=end,
                incarnations=incarnations_of(
                    row.tails.get(self._request.source, {}),
                    place[1],
                    row.incarnations.get(self._request.source, 1),
                ),
                outgoing=outgoing.get(place, ()),
                covered=target.covered.get(place, ()),
                target_number=self._ground.clusters[self._request.target].number,
            )
        return found

    def in_transit(self, target: _Answer, all_: Iterable[_Answer]) -> int:
        """Return how many records that tasks have read on a now unreachable source the target lacks."""
        answers = list(all_)
        read = {
            place: (0, max(each.offset for each in positions)) for place, positions in _outgoing(answers).items()
        }
        return sum(self.lacking(read, target, answers).values())

    def _topics(self, cluster: str) -> Topics:
        return {
            row.stream: row.technical_names[cluster]
            for row in self._ground.streams
            if cluster in row.technical_names
        }

    def _places(self, topics: Topics) -> dict[tuple[str, int], PartitionOf]:
        """Return (topic, partition) -> stream partition."""
        return {
            (topics[row.stream], partition): (row.stream, partition)
            for row in self._ground.streams
            if row.stream in topics
            for partition in range(row.partitions)
        }

    def _ask_source(
        self, answer: _Answer, offsets: GroupOffsets, groups: GroupAdmin, row: ClusterRow, topics: Topics
    ) -> None:
        places = self._places({stream: topics[stream] for stream in answer.partitions})
        names = groups.names()
        answer.groups = self._groups(groups, row, topics, names)
        reader = Reader(row.group_format, "group", self._environments, {})
        known = {each.technical_group for each in self._ground.facts.offsets}
        known |= {each.technical_group for each in answer.groups}
        wanted: list[str] = []
        for name in sorted(names):
            logical = None if name.startswith(OWN_GROUPS) else reader.within(name)
            if logical is not None:
                answer.names[name] = logical.stream
            if logical is not None or name in known:
                wanted.append(name)
        asked = {name: list(places) for name in wanted[:MOST_GROUPS]}
        for (group, place), standing in (offsets.committed(asked) if asked else {}).items():
            # An offset that a committer set is the progress of a group on another cluster.
            if standing.offset is not None and standing.is_fresh:
                answer.commits[group, places[place]] = standing.offset
        # Read the ends last, so that no commit lies behind them.
        answer.ends = {places[place]: found for place, found in offsets.ends(places).items()}

    def _groups(
        self, admin: GroupAdmin, row: ClusterRow, topics: Topics, names: Mapping[str, bool]
    ) -> tuple[GroupFact, ...]:
        """Return groups with members that read a moved stream or whose name fits a moved environment's format."""
        reader = Reader(row.group_format, "group", self._environments, {})
        streams = {topic: stream for stream, topic in topics.items()}
        busy = [name for name, has_members in names.items() if has_members and not name.startswith(OWN_GROUPS)]
        read = {name: reader.within(name) for name in busy}
        busy.sort(key=lambda name: (read[name] is None, name))  # groups of moved environments first
        found = []
        for name, members in admin.members(busy[:MOST_GROUPS]).items():
            read_topics = frozenset(topic for member in members for topic in member.topics)
            its, logical = frozenset(streams[t] for t in read_topics if t in streams), read[name]
            if members and (its or (logical is not None and not read_topics)):
                found.append(
                    GroupFact(
                        technical_group=name,
                        group=None if logical is None else logical.stream,
                        place=None if logical is None else (logical.tenant, logical.instance, logical.environment),
                        client_ids=tuple(sorted(member.client_id for member in members)),
                        streams=its,
                    )
                )
        return tuple(sorted(found, key=lambda each: each.technical_group))

    def _outgoing(self, cluster: str, offsets: GroupOffsets, topics: Topics) -> dict[PartitionOf, list[Position]]:
        """Return positions of the source's tasks that copy to a cluster; they are committed there."""
        levels = [
            level
            for (source, level), target in self._ground.facts.targets.items()
            if (source, target) == (self._request.source, cluster)
        ]
        return self._positions(
            cluster,
            offsets,
            topics,
            lambda bucket: [Task(self._request.source, lv, bucket).kafka_name for lv in levels],
        )

    def _covered(self, cluster: str, offsets: GroupOffsets, topics: Topics) -> dict[PartitionOf, list[Vector]]:
        leaf = self._ground.leaves.get(cluster)
        if leaf is None:
            return {}
        incarnations = {row.stream: row.incarnations.get(cluster) for row in self._ground.streams}
        found = self._positions(cluster, offsets, topics, lambda bucket: leaf.groups(bucket, self._buckets))
        return {
            place: [
                each.mark.covered
                for each in positions
                # Records covered in an earlier incarnation of the topic are not there.
                if each.mark.target_incarnation in (0, incarnations[place[0]])
            ]
            for place, positions in found.items()
        }

    def _positions(
        self, cluster: str, offsets: GroupOffsets, topics: Topics, groups: Callable[[int], Iterable[str]]
    ) -> dict[PartitionOf, list[Position]]:
        """Return the positions that these groups of each bucket have on a cluster, by partition."""
        places = self._places(topics)
        wanted: dict[str, list[tuple[str, int]]] = {}
        for place, (stream, partition) in places.items():
            for group in groups(assignment.bucket(stream, partition, self._buckets)):
                wanted.setdefault(group, []).append(place)
        found: dict[PartitionOf, list[Position]] = {}
        for (_, place), standing in (offsets.committed(wanted) if wanted else {}).items():
            if standing.offset is None:
                continue
            try:
                mark = decode_metadata(standing.metadata)
            except MetadataInvalid:
                continue  # set by another program; the distributor reports it
            found.setdefault(places[place], []).append(Position(standing.offset, mark))
        return found


def _outgoing(answers: Iterable[_Answer]) -> dict[PartitionOf, list[Position]]:
    """Return the positions of the source's tasks from all clusters."""
    found: dict[PartitionOf, list[Position]] = {}
    for answer in answers:
        for place, positions in answer.outgoing.items():
            found.setdefault(place, []).extend(positions)
    return found
