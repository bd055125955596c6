"""Failures of a cluster say what happened, where, and what to do."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import StateConflict
from backend.kafka.search.topic_identity import TopicReplaced
from backend.messages.reading_failures import reading_failures
from tests.unit.messages.test_request import facts


def test_a_tail_of_a_topic_that_was_created_anew_says_how_to_go_on() -> None:
    with pytest.raises(StateConflict) as failed, reading_failures(facts(3)):
        raise TopicReplaced("topic acme-retail-prod-orders was deleted and created anew")
    assert failed.value.detail == (
        "topic acme-retail-prod-orders was deleted and created anew on c1: "
        "offsets begin again, so follow new messages once more in a few seconds"
    )
