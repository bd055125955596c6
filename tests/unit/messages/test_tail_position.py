"""Ids of a live tail's events: where a tail continues, and why it does not."""

from __future__ import annotations

import pytest

from backend.messages.request import LONGEST_START
from backend.messages.tail_position import LONGEST, OTHER_TOPIC, UNKNOWN, TailStart, read, written
from tests.unit.messages.test_request import facts


def test_an_id_says_where_the_tail_continues() -> None:
    assert written(facts(3), {2: 44, 0: 12}) == "c1/1/0=12,2=44"
    assert read(facts(3), "c1/1/0=12,2=44") == TailStart({0: 12, 2: 44})
    assert read(facts(3), "") == TailStart()


@pytest.mark.parametrize(
    ("event_id", "note"),
    [
        ("c1/2/0=12", OTHER_TOPIC),
        ("c2/1/0=12", UNKNOWN),
        *((each, UNKNOWN) for each in ("nonsense", "c1/1/", "c1/1/0=-1", "c1/1/0=1,0=2", f"c1/1/0={2**63}")),
        ("c1/1/" + ",".join(f"{n}={10**18}" for n in range(2000)), UNKNOWN),
    ],
)
def test_a_tail_that_cannot_continue_says_why(event_id: str, note: str) -> None:
    assert read(facts(3), event_id) == TailStart(note=note)


def test_the_longest_id_is_read() -> None:
    positions = dict.fromkeys(range(256), 2**63 - 1)
    event_id = written(facts(256), positions)
    assert len(event_id) < LONGEST_START < LONGEST
    assert read(facts(256), event_id) == TailStart(positions)
