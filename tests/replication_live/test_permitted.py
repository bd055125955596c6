"""What fixed mode permits of leaders and replicas in sync, and what not; the cluster's broker 1 leads at first."""

from __future__ import annotations

import pytest

from tests.replication_live.compared import AS_THE_CLUSTER
from tests.replication_live.permitted import Change, Fault, permits

Events = list[Fault | Change]


def change(leader: int, *isr: int) -> Change:
    return Change(leader, frozenset(isr))


PERMITTED: dict[str, Events] = {
    "nothing": [],
    "a leader dies and comes back": [
        Fault("crash", 1), change(2, 2, 3), Fault("restart", 1), change(2, 1, 2, 3),
    ],
    "either of those in sync may lead": [Fault("crash", 1), change(3, 2, 3)],
    "a follower stands still": [Fault("pause", 3), change(1, 1, 2), Fault("resume", 3), change(1, 1, 2, 3)],
    "a leader that was given up without need": [Fault("session_expiry", 1), change(3, 2, 3), change(3, 1, 2, 3)],
    "one that is dead is made the leader before it is given up": [
        Fault("crash", 1), Fault("crash", 2), change(2, 2, 3), Fault("fenced", 2), change(3, 3),
    ],
    "all die, and who led last comes back to lead": [
        Fault("crash", 1), Fault("crash", 2), Fault("crash", 3),
        change(2, 2, 3), change(2, 2), change(0, 2), Fault("restart", 1), Fault("restart", 3), Fault("restart", 2),
        change(2, 2), change(2, 1, 2),
    ],
    "who is eligible leads where nobody is in sync": [
        Fault("crash", 1), change(2, 2, 3), Fault("pause", 3), change(2, 2), Fault("crash", 2), change(0, 2),
        Fault("resume", 3), change(3, 3),
    ],
}  # fmt: skip

REFUSED: dict[str, Events] = {
    "who lost its session stays in sync": [Fault("crash", 1), change(2, 1, 2, 3)],
    "another leads although nothing happened": [change(2, 2, 3)],
    "one out of sync leads": [
        Fault("crash", 2), change(1, 1, 3), Fault("crash", 1), Fault("restart", 2), change(2, 2, 3),
    ],
    "a leader leads again without a change in between": [Fault("pause", 1), change(2, 2, 3), change(1, 1, 2, 3)],
    "one that is up and has all leaves the ISR": [Fault("crash", 3), change(1, 1, 2), change(1, 1)],
    "one that is dead comes in sync": [Fault("crash", 3), change(1, 1, 2), change(1, 1, 2, 3)],
    "who came back uncleanly leads before the last leader": [
        Fault("crash", 1), Fault("crash", 2), Fault("crash", 3), change(2, 2, 3), change(2, 2), change(0, 2),
        Fault("restart", 1), change(1, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("events", PERMITTED.values(), ids=PERMITTED)
def test_it_is_permitted(events: Events) -> None:
    verdict = permits(AS_THE_CLUSTER, events)
    assert verdict.permitted, verdict.why
    assert verdict.changes == sum(isinstance(each, Change) for each in events)


@pytest.mark.parametrize("events", REFUSED.values(), ids=REFUSED)
def test_it_is_not_permitted(events: Events) -> None:
    verdict = permits(AS_THE_CLUSTER, events)
    assert not verdict.permitted
    assert "no steps lead to" in verdict.why
