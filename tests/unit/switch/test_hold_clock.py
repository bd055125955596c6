"""The clock of a hold: the time that is left, and a hold that is over its limit."""

from __future__ import annotations

import pytest

from backend.web.switch.switch_view import HoldClock


@pytest.mark.parametrize("held_ms, expired", [(0, False), (59_999, False), (60_000, True), (75_000, True)])
def test_a_hold_is_over_its_limit_when_no_time_is_left(held_ms: int, expired: bool) -> None:
    clock = HoldClock(held_ms=held_ms, limit_ms=60_000)
    assert clock.is_expired == expired
    assert expired or clock.left == {0: "1 min", 59_999: "1 ms"}[held_ms]
