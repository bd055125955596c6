"""Committed offsets of groups on one cluster: read them and set them from outside.

The broker itself protects a group with members: it refuses an offset from outside, so no check is needed before.
Callers that set offsets of a group without members must do so one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from backend.domain.offsets import commit_batches
from backend.domain.offsets.commit_rules import CommittedOffset
from backend.kafka.base.errors import KafkaCallFailed, OffsetsPending, kafka_error, sentence
from backend.kafka.groups import group_reader
from backend.kafka.groups.commit_limit import largest_commit
from backend.kafka.groups.committed import Committed
from backend.kafka.logs.listed_offsets import listed_offsets
from backend.kafka.logs.log_ends import Place, ends_by

_REQUEST_SECONDS = 10.0
_MOST_CONNECTIONS, _GROUPS_EACH = 8, 3
_ANY_COMMIT_BYTES = 32 * 1024
"""Size of a commit that every cluster accepts; for larger commits the cluster's limit is read."""
_WITH_MEMBERS = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An offset to set, with its metadata."""

    offset: int
    metadata: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Reason for which an offset was not set."""

    reason: str
    has_members: bool = False


class GroupOffsets:
    """Group offsets on one cluster; used by one thread."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect. Raises KafkaCallFailed."""
        self._config = dict(config)
        self._reader: group_reader.GroupReader | None = None
        self._admins: list[AdminClient] = []
        self._commit_bytes: int | None = None
        self.open_for(1)

    def open_for(self, groups: int) -> None:
        """Open enough connections to set the offsets of `groups` groups in parallel. Raises KafkaCallFailed.

        A broker takes some 7 ms for each group and handles the requests of one connection one after the other; a
        switch cannot wait for that.
        """
        wanted = min(_MOST_CONNECTIONS, -(-groups // _GROUPS_EACH))
        try:
            more = [AdminClient(self._config) for _ in range(wanted - len(self._admins))]
            if self._admins:  # the first connects when it is used
                for answer in [admin.describe_cluster(request_timeout=_REQUEST_SECONDS) for admin in more]:
                    answer.result(_REQUEST_SECONDS + 1)
        except (KafkaException, ValueError, TimeoutError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        self._admins += more

    def committed(
        self, wanted: Mapping[str, Iterable[Place]], *, stable: bool = False
    ) -> dict[tuple[str, Place], CommittedOffset]:
        """Return the groups' committed offsets; partitions that cannot be queried now are left out.

        Raises KafkaCallFailed if no group can be queried. With `stable`, commits of transactions that are still
        open are waited for: raises OffsetsPending while there are any (KIP-447), and KafkaCallFailed if a single
        partition cannot be queried.
        """
        found: dict[tuple[str, Place], CommittedOffset] = {}
        failed: KafkaError | None = None
        for group, rows in self._ask(wanted, stable).items():
            if isinstance(rows, KafkaError):
                failed = rows
                continue
            for row in rows:
                if row.code == 0:
                    offset = row.offset if row.offset >= 0 else None
                    found[group, row.place] = CommittedOffset(offset=offset, metadata=row.metadata)
                elif stable and row.code == KafkaError.UNSTABLE_OFFSET_COMMIT:
                    raise OffsetsPending(f"a transaction with commits of {group} has not ended yet")
                elif stable:
                    topic, partition = row.place
                    why = KafkaError(row.code).str()
                    raise KafkaCallFailed(f"the offset of {group} for {topic}-{partition} cannot be read: {why}")
        if failed is not None and not found:
            raise KafkaCallFailed(str(failed.str()))
        return found

    def _ask(
        self, wanted: Mapping[str, Iterable[Place]], stable: bool
    ) -> Mapping[str, Sequence[Committed] | KafkaError]:
        try:
            if self._reader is None:
                self._reader = group_reader.open_consumer(self._config)
            found = group_reader.request_offsets(self._reader, wanted, _REQUEST_SECONDS, require_stable=stable)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        return found

    def set(self, wanted: Mapping[str, Mapping[Place, Setting]]) -> dict[tuple[str, Place], Refused | None]:
        """Set groups' offsets; None means done. Raises KafkaCallFailed if the cluster cannot be reached.

        Offsets of one group that do not fit into one request are set by several requests, of which some may be
        refused.
        """
        asked: list[tuple[str, list[TopicPartition], Future[ConsumerGroupTopicPartitions]]] = []
        try:
            for (group, settings), admin in zip(wanted.items(), itertools.cycle(self._admins)):
                for parts in self._pieces(group, settings):
                    (answer,) = admin.alter_consumer_group_offsets(
                        [ConsumerGroupTopicPartitions(group, parts)], request_timeout=_REQUEST_SECONDS
                    ).values()
                    asked.append((group, parts, answer))
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        done: dict[tuple[str, Place], Refused | None] = {}
        for group, parts, answer in asked:
            try:
                rows = answer.result(_REQUEST_SECONDS + 1).topic_partitions or ()
            except (KafkaException, TimeoutError) as error:
                why = _refused(kafka_error(error), sentence(error))
                done |= {(group, (part.topic, part.partition)): why for part in parts}
                continue
            for row in rows:
                refused = None if row.error is None else _refused(row.error, str(row.error.str()))
                done[group, (row.topic, row.partition)] = refused
        return done

    def _pieces(self, group: str, settings: Mapping[Place, Setting]) -> Iterator[list[TopicPartition]]:
        parts = [TopicPartition(*place, each.offset, each.metadata) for place, each in settings.items()]

        def size(part: TopicPartition) -> int:
            return commit_batches.record_bytes(group, part.topic, part.metadata)

        if self._commit_bytes is None and sum(map(size, parts)) > _ANY_COMMIT_BYTES:
            self._commit_bytes = largest_commit(self._admins[0])
        return commit_batches.pieces(parts, size, self._commit_bytes or _ANY_COMMIT_BYTES)

    def ends(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """Return (first offset, last stable offset) of each partition that can be queried.

        Raises KafkaCallFailed.
        """
        return ends_by(self._admins[0], places, _REQUEST_SECONDS)

    def at_timestamps(self, wanted: Mapping[Place, Sequence[int]]) -> dict[tuple[Place, int], int | None]:
        """Return (partition, timestamp) -> first offset with that timestamp or a later one; None if there is none.

        Partitions that cannot be queried now are left out. Raises KafkaCallFailed.
        """
        found: dict[tuple[Place, int], int | None] = {}
        # A request holds one timestamp per partition.
        rounds = [
            {place: times[turn] for place, times in wanted.items() if turn < len(times)}
            for turn in range(max((len(times) for times in wanted.values()), default=0))
        ]
        asked = [
            {TopicPartition(*place): OffsetSpec.for_timestamp(at) for place, at in times.items()}
            for times in rounds
        ]
        try:
            answers = listed_offsets(self._admins[0], asked, _REQUEST_SECONDS)
        except (KafkaException, ValueError) as error:
            raise KafkaCallFailed(sentence(error)) from error
        for times, told in zip(rounds, answers, strict=True):
            for part, offset in told.items():
                place = part.topic, part.partition
                if isinstance(offset, int):
                    found[place, times[place]] = offset if offset >= 0 else None
        return found


def _refused(error: KafkaError | None, reason: str) -> Refused:
    return Refused(reason=reason, has_members=error is not None and error.code() in _WITH_MEMBERS)
