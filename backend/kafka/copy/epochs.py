"""Truncation point of a log: leader epochs tell apart the records from before and after (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

UNKNOWN_EPOCH = -1
"""The value of librdkafka."""
_RECORD_SECONDS = 10.0


def first_born_after(
    config: Mapping[str, object], place: tuple[str, int], span: tuple[int, int], leader_epoch: int
) -> int:
    """Return the first offset of a span whose record has a later leader epoch; the span's end if there is none.

    Leader epochs never fall along a log, so a binary search suffices. Raises KafkaException.
    """
    first, end = span
    if leader_epoch == UNKNOWN_EPOCH:
        return end
    consumer = Consumer(
        {
            **config,
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        while first < end:
            middle = (first + end) // 2
            found = _epoch_at(consumer, TopicPartition(*place, middle))
            if found is not None and found > leader_epoch:
                end = middle
            else:
                first = middle + 1
    finally:
        consumer.close()
    return end


def _epoch_at(consumer: Consumer, where: TopicPartition) -> int | None:
    """Return the epoch of the first record at or after an offset; None if only control records follow."""
    consumer.assign([where])
    message = consumer.poll(_RECORD_SECONDS)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no record of {where.topic} was sent"))
    error = message.error()
    if error is None:
        return message.leader_epoch()
    if error.code() == KafkaError._PARTITION_EOF:
        return None
    raise KafkaException(error)
