"""A page that ends early: what was not decided is neither shown nor skipped, in each partition."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Message

from backend.kafka.search.message_reading import EndedBy, Page, Selected
from backend.kafka.search.record_search import LogRange
from backend.messages.page_cut import PageCut


def message(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=b"v")


def page(after: Mapping[int, int] | None, *, backward: bool) -> Page:
    ranges = {0: LogRange(10, 20), 1: LogRange(0, 5)}
    return Page([], after, backward, 0, 0, EndedBy.LIMIT, ranges, {})


def test_nothing_left_leaves_the_page_as_it_is() -> None:
    cut = PageCut(backward=False)
    assert cut.is_empty
    found = [Selected(message(0, 12), None)]
    assert cut.kept(found) == found
    assert cut.positions(page({0: 13, 1: 2}, backward=False)) == {0: 13, 1: 2}
    assert cut.positions(page(None, backward=False)) is None


@pytest.mark.parametrize(
    ("backward", "left", "kept", "positions"),
    [
        (False, [(0, 14), (0, 13), (1, 3)], [(0, 12), (1, 2)], {0: 13, 1: 3}),
        (False, [(0, 13)], [(0, 12), (1, 2), (1, 3)], {0: 13, 1: 4}),
        (True, [(0, 13), (0, 14)], [(0, 15), (1, 2), (1, 3)], {0: 15, 1: 1}),
        (True, [(1, 2), (0, 14)], [(0, 15), (1, 3)], {0: 15, 1: 3}),
    ],
)
def test_the_next_page_begins_with_what_is_left(
    backward: bool, left: list[tuple[int, int]], kept: list[tuple[int, int]], positions: Mapping[int, int]
) -> None:
    cut = PageCut(backward=backward)
    cut.leave(message(*place) for place in left)
    scanned = {0: 12, 1: 1} if backward else {0: 16, 1: 4}
    shown = [(partition, offset) for partition in (0, 1) for offset in range(20)]
    found = cut.kept(Selected(message(*place), None) for place in shown)
    places = {(each.message.partition(), each.message.offset()) for each in found}
    assert places >= set(kept)
    assert not places & set(left)
    assert cut.positions(page(scanned, backward=backward)) == positions


@pytest.mark.parametrize(("backward", "positions"), [(False, {0: 15, 1: 5}), (True, {0: 16, 1: 0})])
def test_a_page_that_read_everything_goes_on_where_something_is_left(
    backward: bool, positions: Mapping[int, int]
) -> None:
    cut = PageCut(backward=backward)
    cut.leave([message(0, 15)])
    assert cut.positions(page(None, backward=backward)) == positions
