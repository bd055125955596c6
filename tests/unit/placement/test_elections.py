"""Elections of leaders for more partitions than one request may name."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import ElectLeadersResponse

from backend.kafka.admin.reassignments import elect_preferred
from backend.kafka.base.errors import KafkaCallFailed

PARTITIONS = [("t", number) for number in range(2500)]


class Controller:
    """A controller that elects leaders until it fails, and records the partitions of each request."""

    def __init__(self, fails_at: int | None) -> None:
        self.fails_at, self.asked = fails_at, list[list[int]]()

    def __call__(self, request: Any) -> ElectLeadersResponse:
        if len(self.asked) == self.fails_at:
            raise KafkaCallFailed("it has gone")
        ((_, numbers),) = [tuple(each) for each in request.topic_partitions]
        self.asked.append(numbers)
        return ElectLeadersResponse(error_code=0, replica_election_results=[])


def test_all_are_elected_a_thousand_at_a_time() -> None:
    controller = Controller(None)
    assert elect_preferred(controller, PARTITIONS, 1000) == {}
    assert [len(numbers) for numbers in controller.asked] == [1000, 1000, 500]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_what_was_elected_before_the_controller_went_is_told(fails_at: int) -> None:
    controller = Controller(fails_at)
    left = PARTITIONS[1000 * fails_at :]
    assert elect_preferred(controller, PARTITIONS, 1000) == dict.fromkeys(left, "it has gone")
    assert len(controller.asked) == fails_at


def test_where_nothing_was_elected_it_fails() -> None:
    with pytest.raises(KafkaCallFailed, match="it has gone"):
        elect_preferred(Controller(0), PARTITIONS, 1000)
