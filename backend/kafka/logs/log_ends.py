"""First offsets and ends of logs, for many partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from backend.kafka.base.errors import KafkaCallFailed, kafka_error, sentence
from backend.kafka.logs.listed_offsets import listed_offsets

_NOBODY_ANSWERS = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._AUTHENTICATION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)

Place = tuple[str, int]
"""(Topic, partition)."""


def partitions(config: Mapping[str, Any], topic: str, seconds: float) -> list[Place]:
    """Return all partitions of a topic; empty if it does not exist. Raises KafkaCallFailed."""
    try:
        admin = AdminClient(dict(config))
        # Not `list_topics`: brokers may be set to create a missing topic for a client that may produce.
        (answer,) = admin.describe_topics(TopicCollection([topic]), request_timeout=seconds).values()
        found = answer.result(seconds + 1).partitions
    except (KafkaException, TimeoutError, ValueError) as error:
        inner = kafka_error(error)
        if inner is not None and inner.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        raise KafkaCallFailed(sentence(error)) from error
    return [(topic, each.id) for each in sorted(found, key=lambda each: each.id)]


def ends(
    config: Mapping[str, Any], places: Iterable[Place], seconds: float, *, undecided_too: bool = False
) -> dict[Place, tuple[int, int]]:
    """Return (first offset, last stable offset) of each partition; those that do not answer are left out.

    `undecided_too`: return the end after open transactions. Raises KafkaCallFailed if the cluster does not answer.
    """
    try:
        admin = AdminClient(dict(config))
    except (KafkaException, ValueError) as error:
        raise KafkaCallFailed(sentence(error)) from error
    return ends_by(admin, places, seconds, undecided_too=undecided_too)


def ends_by(
    admin: AdminClient, places: Iterable[Place], seconds: float, *, undecided_too: bool = False
) -> dict[Place, tuple[int, int]]:
    """Return the same as `ends`, through an existing client.

    A cluster that answers, though for none of these partitions, is no failure.
    """
    wanted = [TopicPartition(*place) for place in places]
    if not wanted:
        return {}
    isolation = IsolationLevel.READ_UNCOMMITTED if undecided_too else IsolationLevel.READ_COMMITTED
    specs = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    try:
        lows, highs = listed_offsets(admin, [dict.fromkeys(wanted, spec) for spec in specs], seconds, isolation)
    except KafkaException as error:
        raise KafkaCallFailed(sentence(error)) from error
    found: dict[Place, tuple[int, int]] = {}
    failed: Exception | None = None
    for place in wanted:
        match lows[place], highs[place]:
            case int(low), int(high):
                found[place.topic, place.partition] = low, high
            case (Exception() as why, _) | (_, Exception() as why):
                failed = why
    if failed is not None and not found and _is_away(failed):
        raise KafkaCallFailed(sentence(failed)) from failed
    return found


def _is_away(failed: Exception) -> bool:
    error = kafka_error(failed)
    return error is None or error.code() in _NOBODY_ANSWERS


def stretch(config: Mapping[str, Any], positions: Mapping[Place, int], seconds: float) -> dict[Place, int]:
    """Return the last stable offset of partitions that are read up to `positions`; the position if unknown.


    Raises KafkaCallFailed, also if a log ends before the position: it was truncated or re-created, and the records
    there are not the ones that follow.
    """
    found = ends(config, positions, seconds)
    for (topic, partition), position in positions.items():
        _, end = found.get((topic, partition), (0, position))
        if end < position:
            raise KafkaCallFailed(f"{topic}/{partition} ends at {end}, its reader is at {position} already")
    return {place: found[place][1] if place in found else position for place, position in positions.items()}
