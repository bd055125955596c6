"""Starting point of reading: the furthest place before which the target lacks nothing that the edge carries."""

from __future__ import annotations

import pytest

from backend.domain.distribution import rescan
from backend.domain.distribution.rescan import BEGINNING, Checkpoint

OWN = Checkpoint(100, 1, {1: (1, 40), 2: (1, 9)})
EARLY = Checkpoint(20, 1, {1: (1, 10)})
MIDDLE = Checkpoint(60, 1, {1: (1, 30), 2: (1, 5)})
LOG = ((0, 1),)


@pytest.mark.parametrize(
    ("origins", "covered", "begin"),
    [
        ([1, 2], {1: (1, 40), 2: (1, 9)}, OWN),
        ([1], {1: (1, 40)}, OWN),
        ([], {}, OWN),
        ([1, 2], {1: (1, 40), 2: (1, 8)}, MIDDLE),
        ([1], {1: (1, 29)}, EARLY),
        ([1], {1: (1, 9)}, BEGINNING),
        ([2], {}, EARLY),
        ([1], {1: (2, 0)}, OWN),
    ],
)
def test_reading_begins_at_the_furthest_place_that_misses_nothing(origins, covered, begin):
    assert rescan.start([EARLY, OWN, MIDDLE], LOG, origins, covered) == begin


def test_places_behind_the_cut_of_a_log_mean_nothing():
    incarnations = ((0, 1), (80, 3))
    assert rescan.start([OWN], incarnations, [], {}) is BEGINNING
    assert rescan.start([OWN, MIDDLE], incarnations, [], {}) == MIDDLE
    assert rescan.start([MIDDLE, Checkpoint(100, 3, {})], incarnations, [], {}) == Checkpoint(100, 3, {})
    assert rescan.start([MIDDLE], ((0, 1), (20, 4), (90, 5)), [], {}) is BEGINNING


def test_positions_in_a_topic_that_was_made_anew_mean_nothing():
    assert rescan.start([OWN, MIDDLE], ((0, 2),), [], {}) is BEGINNING
