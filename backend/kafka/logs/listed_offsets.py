"""Offsets of partitions as brokers tell them (ListOffsets), also of partitions that have just come to be.

librdkafka asks the leaders that it has in mind. If one broker has told it of a topic, and another one, which is
behind, that there is none, it says "No leaders found" for minutes, without asking any broker (seen with one of a
hundred topics on a busy machine). So metadata is asked for then, and the offsets once more.

One client is asked one thing at a time. Where librdkafka (2.16) does not know a leader yet, it waits for metadata.
If some comes while it is about to wait, its own thread ends the request that the caller's still works on, and the
process dies: within seconds where two such requests are made in one go (`query_leaders_async_worker` in
rdkafka_partition.c).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from backend.kafka.base.errors import kafka_error

_LEAST_SECONDS = 0.1

Asked = Mapping[TopicPartition, OffsetSpec]
Told = dict[TopicPartition, int | Exception]
"""An offset of each partition, or why there is none: a KafkaException or TimeoutError."""


def listed_offsets(
    admin: AdminClient,
    rounds: Sequence[Asked],
    seconds: float,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> list[Told]:
    """What each of the rounds asks, one after the other. An offset is -1 where a time has no record.

    Raises KafkaException if nothing can be asked.
    """
    deadline = time.monotonic() + seconds
    found = _told(admin, rounds, seconds, isolation)
    again = [
        {place: asked[place] for place, each in told.items() if _is_unled(each)}
        for asked, told in zip(rounds, found, strict=True)
    ]
    if any(again) and (left := deadline - time.monotonic()) > _LEAST_SECONDS:
        with contextlib.suppress(KafkaException):  # what is there already is told
            admin.list_topics(timeout=left)
            left = max(deadline - time.monotonic(), _LEAST_SECONDS)
            for told, anew in zip(found, _told(admin, again, left, isolation), strict=True):
                told.update(anew)
    return found


def _told(admin: AdminClient, rounds: Sequence[Asked], seconds: float, isolation: IsolationLevel) -> list[Told]:
    deadline, found = time.monotonic() + seconds, []
    for asked in rounds:
        left = max(deadline - time.monotonic(), _LEAST_SECONDS)
        going = admin.list_offsets(dict(asked), isolation_level=isolation, request_timeout=left) if asked else {}
        found.append(dict(_results(going.items(), left)))
    return found


def _results(
    going: Iterable[tuple[TopicPartition, Future[ListOffsetsResultInfo]]], seconds: float
) -> Iterable[tuple[TopicPartition, int | Exception]]:
    for place, future in going:
        try:
            yield place, int(future.result(seconds + 1).offset)
        except (KafkaException, TimeoutError) as error:
            yield place, error


def _is_unled(told: int | Exception) -> bool:
    error = None if isinstance(told, int) else kafka_error(told)
    return error is not None and error.code() == KafkaError._NOENT
