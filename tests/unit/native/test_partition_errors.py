"""Errors of a partition are passed on to the source, whether they have an offset or not."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from backend.kafka.copy.record_loop import RecordLoop

PLACE = ("t", 0)


class Reported:
    """Stands for a source; keeps what it is called with."""

    def __init__(self) -> None:
        self.errors: list[tuple[tuple[str, int], int | None, int]] = []

    def failed(self, place: tuple[str, int], offset: int | None, error: KafkaError) -> None:
        self.errors.append((place, offset, error.code()))


@pytest.mark.parametrize(
    ("code", "offset"), [(KafkaError._PARTITION_EOF, 7), (KafkaError.LEADER_NOT_AVAILABLE, None)]
)
def test_an_error_is_passed_on_with_its_offset_if_it_has_one(code: int, offset: int | None) -> None:
    source, no_offset = Reported(), -1001
    loop = RecordLoop(cast(Any, source), cast(Any, None), cast(Any, None), lambda: None)
    loop.add(PLACE, cast(Any, object()))
    message = Message(
        topic=PLACE[0],
        partition=PLACE[1],
        offset=no_offset if offset is None else offset,
        error=KafkaError(code),
    )
    assert message.offset() == offset
    assert loop.decide(message) is None
    assert source.errors == [(PLACE, offset, code)]
