"""The error of a failed append to a schemas topic is the first cause, although its report may still be unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.schemas.schemas_topic import OutcomeUnknown, _append

FIRST, SECOND = [(b"k1", b"v1"), (b"k2", b"v2")]
FULL = BufferError("Local: Queue full")
TOO_LARGE = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))


class FullProducer:
    """Takes one record, for which `report` waits to be read, and raises `error` at the next."""

    def __init__(self, report: KafkaError | None, error: Exception) -> None:
        self._report, self._error = report, error
        self._waiting: list[Callable[[], None]] = []
        self._taken = 0

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Any, **_: Any) -> None:
        self._taken += 1
        if self._taken > 1:
            raise self._error
        if self._report is not None:
            self._waiting.append(lambda: on_delivery(self._report, None))

    def poll(self, seconds: float) -> int:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()
        return len(waiting)


def failure(report: int | None, error: Exception) -> KafkaCallFailed:
    producer = FullProducer(None if report is None else KafkaError(report), error)
    with pytest.raises(KafkaCallFailed) as failed:
        _append(producer, "_schemas", [FIRST, SECOND], [])  # type: ignore[arg-type]
    assert failed.value.__cause__ is error
    return failed.value


@pytest.mark.parametrize("error", [FULL, TOO_LARGE], ids=["queue full", "too large"])
def test_what_the_cluster_refused_first_is_the_reason(error: Exception) -> None:
    told = failure(KafkaError.TOPIC_AUTHORIZATION_FAILED, error)
    assert (told.code, type(told)) == (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaCallFailed)
    assert told.is_lasting


def test_a_record_that_may_have_arrived_leaves_the_outcome_unknown() -> None:
    assert isinstance(failure(KafkaError._MSG_TIMED_OUT, FULL), OutcomeUnknown)


def test_if_nothing_failed_before_the_producer_s_own_error_is_the_reason() -> None:
    assert failure(None, FULL).reason == "Local: Queue full"
    assert failure(None, TOO_LARGE).code == KafkaError.MSG_SIZE_TOO_LARGE
