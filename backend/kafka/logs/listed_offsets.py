"""Offsets of partitions by ListOffsets requests, also of partitions that were just created.

librdkafka queries the leaders that it knows. If one broker has reported a topic, and another one, which is behind,
reports that it does not exist, it returns "No leaders found" for minutes, without querying any broker (seen with
one of a hundred topics on a busy machine). Therefore metadata is requested then, and the offsets once more.

One client gets one request at a time. If librdkafka (2.16) does not know a leader yet, it waits for metadata. If
some arrives while it is about to wait, its own thread ends the request that the caller's thread still uses, and
the process dies: within seconds if two such requests are made together (`query_leaders_async_worker` in
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
Answers = dict[TopicPartition, int | Exception]
"""An offset of each partition, or why there is none: a KafkaException or TimeoutError."""


def listed_offsets(
    admin: AdminClient,
    rounds: Sequence[Asked],
    seconds: float,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> list[Answers]:
    """Send the rounds of requests one after the other and return their offsets, -1 where a time has no record.

    Raises KafkaException if no request can be sent.
    """
    deadline = time.monotonic() + seconds
    found = _query(admin, rounds, seconds, isolation)
    again = [
        {place: asked[place] for place, each in answers.items() if _is_unled(each)}
        for asked, answers in zip(rounds, found, strict=True)
    ]
    if any(again) and (left := deadline - time.monotonic()) > _LEAST_SECONDS:
        with contextlib.suppress(KafkaException):  # the answers so far are returned
            admin.list_topics(timeout=left)
            left = max(deadline - time.monotonic(), _LEAST_SECONDS)
            for answers, retried in zip(found, _query(admin, again, left, isolation), strict=True):
                answers.update(retried)
    return found


def _query(
    admin: AdminClient, rounds: Sequence[Asked], seconds: float, isolation: IsolationLevel
) -> list[Answers]:
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


def _is_unled(answer: int | Exception) -> bool:
    error = None if isinstance(answer, int) else kafka_error(answer)
    return error is not None and error.code() == KafkaError._NOENT
