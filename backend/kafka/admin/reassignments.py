"""Reassignments of partitions (KIP-455) and elections of preferred leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.base.requests import Place, Send, accepted, explained, in_portions

Moving = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""(All replicas during the reassignment, those being added, those being removed)."""

_AT_ONCE = 1000
"""Partitions of a request: a controller writes at most 10,000 records for one, whatever their kind."""
_PREFERRED = 0
_NOT_NEEDED = 84


def ongoing(send: Send, timeout_ms: int) -> dict[Place, Moving]:
    """Return all ongoing reassignments, whoever started them. Raises KafkaCallFailed."""
    answer = accepted(send(ListPartitionReassignmentsRequest(topics=None, timeout_ms=timeout_ms)))
    return {
        (topic.name, each.partition_index): (
            tuple(each.replicas),
            tuple(each.adding_replicas),
            tuple(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def alter(send: Send, wanted: Mapping[Place, Sequence[int] | None], timeout_ms: int) -> dict[Place, str]:
    """Start reassignments, or cancel them (None); return the refused ones, with reasons.

    An ongoing one is replaced by the new one. Raises KafkaCallFailed; some may have been accepted by then.
    """
    refused: dict[Place, str] = {}
    topic_of = AlterPartitionReassignmentsRequest.ReassignableTopic
    for some in _portions(wanted):
        topics = [
            topic_of(
                name=topic,
                partitions=[
                    topic_of.ReassignablePartition(partition_index=number, replicas=_list(wanted[topic, number]))
                    for number in numbers
                ],
            )
            for topic, numbers in some.items()
        ]
        answer = accepted(send(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)))
        for result in answer.responses:
            for each in result.partitions:
                if each.error_code:
                    refused[result.name, each.partition_index] = explained(each)
    return refused


def elect_preferred(send: Send, partitions: Iterable[Place], timeout_ms: int) -> dict[Place, str]:
    """Elect the preferred leader of each partition; return those where this failed, with reasons.

    Raises KafkaCallFailed if the first request fails. Later failures must not hide elections that succeeded: the
    error becomes the reason of its partitions, and no more are requested.
    """
    refused: dict[Place, str] = {}
    portions = list(_portions(partitions))
    for number, some in enumerate(portions):
        request = ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=list(some.items()), timeout_ms=timeout_ms
        )
        try:
            answer = accepted(send(request))
        except KafkaCallFailed as error:
            if number == 0:
                raise
            left = [(topic, each) for rest in portions[number:] for topic in rest for each in rest[topic]]
            return refused | dict.fromkeys(left, error.reason)
        for result in answer.replica_election_results:
            for each in result.partition_result:
                if each.error_code not in (0, _NOT_NEEDED):
                    refused[result.topic, each.partition_id] = explained(each)
    return refused


def _list(brokers: Sequence[int] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)


def _portions(partitions: Iterable[Place]) -> Iterator[dict[str, list[int]]]:
    """Group partitions by topic, in portions of a request."""
    for some in in_portions(sorted(partitions), _AT_ONCE):
        by_topic: dict[str, list[int]] = {}
        for topic, number in some:
            by_topic.setdefault(topic, []).append(number)
        yield by_topic
