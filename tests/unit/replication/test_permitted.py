"""Leaders and ISRs that fixed mode permits or not; the cluster's broker 1 leads at first."""

from __future__ import annotations

import pytest

from tests.support.drills.compared import AS_THE_CLUSTER
from tests.support.drills.permitted import Change, Fault, permits

Events = list[Fault | Change]
LATER, AT_ONCE = 100.0, 0.0
"""Milliseconds until the next change is written."""


def change(leader: int, *isr: int, with_the_next: bool = False) -> Change:
    return Change(leader, frozenset(isr), AT_ONCE if with_the_next else LATER)


def fault(kind: str, broker: int) -> Fault:
    return Fault(kind, broker, LATER)


def timed(events: Events) -> Events:
    """Write each change a tenth of a second before the next one, or at the same time."""
    at, found = 0.0, []
    for each in events:
        found.append(each._replace(time_ms=at))
        at += each.time_ms
    return found


PERMITTED: dict[str, Events] = {
    "nothing": [],
    "a leader dies and comes back": [
        fault("crash", 1), change(2, 2, 3), fault("restart", 1), change(2, 1, 2, 3),
    ],
    "either of those in sync may lead": [fault("crash", 1), change(3, 2, 3)],
    "a follower stands still": [fault("pause", 3), change(1, 1, 2), fault("resume", 3), change(1, 1, 2, 3)],
    "a leader that was given up without need": [fault("session_expiry", 1), change(3, 2, 3), change(3, 1, 2, 3)],
    "one that is dead is made the leader before it is given up": [
        fault("crash", 1), fault("crash", 2), change(2, 2, 3), fault("fenced", 2), change(3, 3),
    ],
    "all die, and who led last comes back to lead": [
        fault("crash", 1), fault("crash", 2), fault("crash", 3),
        change(2, 2, 3), change(2, 2), change(0, 2), fault("restart", 1), fault("restart", 3), fault("restart", 2),
        change(2, 2), change(2, 1, 2),
    ],
    "one that comes back at once is in sync with the change that its return is written with": [
        fault("crash", 3), change(1, 1, 2), change(1, 1, 2, 3, with_the_next=True), fault("restart", 3),
    ],
    "who is given up is so with the change that it makes": [
        change(3, 2, 3, with_the_next=True), fault("session_expiry", 1), change(3, 1, 2, 3),
    ],
    "a leader drops both followers in one change": [fault("crash", 2), fault("pause", 3), change(1, 1)],
    "who is eligible leads where nobody is in sync": [
        fault("crash", 1), change(2, 2, 3), fault("pause", 3), change(2, 2), fault("crash", 2), change(0, 2),
        fault("resume", 3), change(3, 3),
    ],
}  # fmt: skip

REFUSED: dict[str, Events] = {
    "who lost its session stays in sync": [fault("crash", 1), change(2, 1, 2, 3)],
    "another leads although nothing happened": [change(2, 2, 3)],
    "one out of sync leads": [
        fault("crash", 2), change(1, 1, 3), fault("crash", 1), fault("restart", 2), change(2, 2, 3),
    ],
    "a leader leads again without a change in between": [fault("pause", 1), change(2, 2, 3), change(1, 1, 2, 3)],
    "one that is up and has all leaves the ISR": [fault("crash", 3), change(1, 1, 2), change(1, 1)],
    "one that is dead comes in sync": [fault("crash", 3), change(1, 1, 2), change(1, 1, 2, 3)],
    "who came back uncleanly leads before the last leader": [
        fault("crash", 1), fault("crash", 2), fault("crash", 3), change(2, 2, 3), change(2, 2), change(0, 2),
        fault("restart", 1), change(1, 1),
    ],
    "one that comes back later is in sync already": [
        fault("crash", 3), change(1, 1, 2), change(1, 1, 2, 3), fault("restart", 3),
    ],
    "who is given up later is without its session already": [change(2, 2, 3), fault("session_expiry", 1)],
    "who was given up stays in sync with the next leader": [
        fault("pause", 3), fault("fenced", 3), fault("crash", 1), change(2, 2, 3),
    ],
}  # fmt: skip


@pytest.mark.parametrize("events", PERMITTED.values(), ids=PERMITTED)
def test_it_is_permitted(events: Events) -> None:
    verdict = permits(AS_THE_CLUSTER, timed(events))
    assert verdict.permitted, verdict.why
    assert verdict.changes == sum(isinstance(each, Change) for each in events)


@pytest.mark.parametrize("events", REFUSED.values(), ids=REFUSED)
def test_it_is_not_permitted(events: Events) -> None:
    verdict = permits(AS_THE_CLUSTER, timed(events))
    assert not verdict.permitted
    assert "no steps lead to" in verdict.why
