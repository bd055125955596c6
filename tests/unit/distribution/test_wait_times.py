"""For how long records wait, by looks at positions and ends."""

from __future__ import annotations

import pytest

from backend.domain.distribution.wait_times import Place, WaitTimes

ONE, OTHER = ("orders", 0), ("orders", 1)


def observe(waits: WaitTimes, now: float, **partitions: tuple[int, int]) -> float:
    """Seconds, after a look at positions and ends of partitions."""
    places: dict[str, Place] = {"one": ONE, "other": OTHER}
    return waits.observe(now, [(places[name], end - at, end) for name, (at, end) in partitions.items()])


def test_without_a_lag_nothing_waits() -> None:
    waits = WaitTimes()
    assert [observe(waits, now, one=(5, 5)) for now in (0, 100)] == [0, 0]
    assert waits.observe(200, []) == 0


def test_a_record_that_comes_now_and_then_waits_no_longer_than_since_the_last_look() -> None:
    waits = WaitTimes()
    found = []
    for n in range(1, 500):
        observe(waits, n * 600.0, one=(n, n))
        found.append(observe(waits, n * 600.0 + 0.25, one=(n, n + 1)))
    assert set(found) == {0.25}, "though its rate is 0"


def test_what_stands_still_waits_for_longer_each_second_whatever_comes_behind_it() -> None:
    waits = WaitTimes()
    observe(waits, 0, one=(5, 5))
    assert [observe(waits, now, one=(5, 5 + now)) for now in (1, 2, 30, 61)] == [1, 2, 30, 61]
    assert observe(waits, 62, one=(66, 66)) == 0


def test_a_partition_that_stands_still_is_not_hidden_by_others_that_move() -> None:
    waits = WaitTimes()
    observe(waits, 0, one=(5, 5), other=(0, 0))
    for now in range(1, 62):
        seconds = observe(waits, now, one=(5, 6), other=(1000 * now, 1000 * now + 50))
    assert seconds == 61


def test_an_edge_that_passes_all_and_copies_nothing_is_not_behind() -> None:
    waits = WaitTimes()
    found = [observe(waits, n / 4, one=(100 * n, 100 * n + 90)) for n in range(1000)]
    assert max(found) <= 0.25


@pytest.mark.parametrize("delay", [5, 80])
def test_a_steady_delay_is_told_as_it_is_and_does_not_jump(delay: int) -> None:
    """A hundred records a second, of which each is passed so many seconds after it came."""
    waits = WaitTimes()
    found = [observe(waits, now, one=(100 * max(0, now - delay), 100 * now)) for now in range(400)]
    assert set(found[2 * delay + 2 :]) == {delay}


def test_a_backlog_that_was_worked_off_is_forgotten_with_the_next_end_that_is_reached() -> None:
    waits = WaitTimes()
    # A million were there at the first look, ten a second come.
    assert observe(waits, 0, one=(0, 1_000_000)) == 0
    assert observe(waits, 70, one=(700_000, 1_000_700)) == 70
    assert observe(waits, 100, one=(1_000_000, 1_001_000)) == 100, "the last of them waited so long"
    assert observe(waits, 100.25, one=(1_001_000, 1_001_002)) == 0.25


def test_time_in_which_nobody_could_look_counts_for_what_waits_then() -> None:
    waits = WaitTimes()
    observe(waits, 0, one=(5, 5))
    assert observe(waits, 300, one=(5, 9)) == 300


def test_a_partition_whose_lag_is_not_known_for_a_while_is_not_forgotten() -> None:
    waits = WaitTimes()
    observe(waits, 0, one=(5, 6))
    assert waits.observe(50, [(ONE, None, -1)]) == 0
    assert observe(waits, 70, one=(5, 7)) == 70
    assert waits.observe(71, [(OTHER, None, -1)]) == 0
    assert observe(waits, 72, one=(5, 7)) == 1, "one that went and came again begins anew"


def test_a_log_that_begins_again_begins_anew() -> None:
    waits = WaitTimes()
    observe(waits, 0, one=(500, 900))
    assert observe(waits, 50, one=(0, 20)) == 50
    assert observe(waits, 51, one=(20, 21)) == 51, "its first end took so long"
    assert observe(waits, 52, one=(21, 22)) == 1
