"""Writing of a message to a cluster that nobody serves."""

from __future__ import annotations

import pytest

from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.message_writing import NewMessage, OutcomeUncertain, write_message
from backend.kafka.search.topic_reader import TopicPlace


def test_a_message_for_which_no_broker_was_reached_is_in_no_doubt() -> None:
    place = TopicPlace("127.0.0.1:9", {}, "orders", ())
    message = NewMessage(partition=0, key=None, value=b"x", headers=[], timestamp_ms=None)
    with pytest.raises(KafkaCallFailed, match="refused") as failed:
        write_message(place, message)
    assert not isinstance(failed.value, OutcomeUncertain)
