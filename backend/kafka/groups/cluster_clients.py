"""Long-lived clients of one cluster: opening a client costs more than all the requests made through it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from backend.domain.distribution.assignment import OWN_GROUPS
from backend.domain.records.marks import Position
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed, sentence
from backend.kafka.groups import group_reader, positions
from backend.kafka.groups.group_members import GroupAdmin, GroupMember
from backend.kafka.groups.group_offsets import GroupOffsets
from backend.kafka.logs import log_ends
from backend.kafka.logs.log_ends import Place
from backend.kafka.logs.log_ranges import RangeReader

_REQUEST_SECONDS = 5.0


class ClusterClients:
    """Clients of one cluster, each opened on first use, for one thread. All methods raise KafkaCallFailed."""

    def __init__(self, name: str, bootstrap_servers: str, properties: Mapping[str, str]) -> None:
        """`name` is the cluster's name, for messages."""
        self._name = name
        self._config = client_config(bootstrap_servers, properties)
        self._admin: AdminClient | None = None
        self._consumer: group_reader.GroupReader | None = None
        self._reader: RangeReader | None = None
        self._offsets: GroupOffsets | None = None

    @property
    def reader(self) -> RangeReader:
        """Return the reader of the cluster's logs."""
        if self._reader is None:
            self._reader = RangeReader(self._config)
        return self._reader

    @property
    def admin(self) -> AdminClient:
        """Return the admin client, for every request except groups' offsets."""
        if self._admin is None:
            try:
                self._admin = AdminClient(self._config)
            except (KafkaException, ValueError) as error:
                raise KafkaCallFailed(sentence(error)) from error
        return self._admin

    def positions(self, wanted: Mapping[str, Collection[Place]]) -> dict[Place, dict[str, Position]]:
        """Return partition -> group -> position of that task; `wanted` gives the partitions by group."""
        if not wanted:
            return {}
        try:
            if self._consumer is None:
                self._consumer = group_reader.open_consumer(self._config)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        try:
            return positions.read_committed(self._consumer, wanted, _REQUEST_SECONDS)
        except KafkaCallFailed as error:
            raise KafkaCallFailed(f"{self._name}: {error.reason}", error.code) from error

    def ends(self, places: Iterable[Place], *, undecided_too: bool = False) -> dict[Place, tuple[int, int]]:
        """Return (first offset, end) of each partition; partitions that cannot be queried are left out."""
        wanted = set(places)
        found = log_ends.ends_by(self.admin, wanted, _REQUEST_SECONDS, undecided_too=undecided_too)
        if wanted - found.keys():
            # A client learns of a topic's new partitions within five minutes; a new client at once.
            self._admin = None
            left = wanted - found.keys()
            found |= log_ends.ends_by(self.admin, left, _REQUEST_SECONDS, undecided_too=undecided_too)
        return found

    def missing(self, places: Iterable[Place]) -> set[Place]:
        """Return the partitions that the cluster does not have."""
        found: set[Place] = set()
        by_topic: dict[str, set[Place]] = {}
        for place in places:
            by_topic.setdefault(place[0], set()).add(place)
        for topic, some in by_topic.items():
            found |= some - set(log_ends.partitions(self._config, topic, _REQUEST_SECONDS))
        return found

    @property
    def offsets(self) -> GroupOffsets:
        """Return the client for offsets of applications' groups."""
        if self._offsets is None:
            self._offsets = GroupOffsets(self._config)
        return self._offsets

    def groups(self) -> list[str]:
        """Return the names of all groups, without Treeline's own."""
        found = GroupAdmin(self.admin, _REQUEST_SECONDS).names()
        return [name for name in found if not name.startswith(OWN_GROUPS)]

    def members(self, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
        """Return the members of each of the groups."""
        return GroupAdmin(self.admin, _REQUEST_SECONDS).members(groups)

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()
        if self._consumer is not None:
            self._consumer.close()
