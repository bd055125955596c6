"""The checks of a drill find what they look for: each is shown an observation that breaks one promise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.support.drills.drill import Observed
from tests.support.drills.history import BrokerSeen, History, Seen, What
from tests.support.drills.promises import broken, last_resorts, sent_again
from tests.support.drills.workload import Logged, Sent

PRODUCER = 7


def seen(leader: int, epoch: int, isr: set[int], elr: Iterable[int] = (), last: Iterable[int] = ()) -> Seen:
    return Seen(0, 0.0, leader, epoch, epoch, frozenset(isr), frozenset(elr), frozenset(last))


def broker(node: int, what: What) -> BrokerSeen:
    return BrokerSeen(0, 0.0, node, what, 7)


def observed(log: list[int], *history: Seen | BrokerSeen, sent: int = 3) -> Observed:
    """Return records 0, 1, 2 ..., each acknowledged where it is at first."""
    return Observed(
        topic="t",
        sent=tuple(Sent(number, 0.0, 0.0, number, None) for number in range(sent)),
        log=tuple(Logged(offset, number, PRODUCER, 0, offset) for offset, number in enumerate(log)),
        history=History(history),
        done=(),
        gaps=(),
    )


START = seen(1, 0, {1, 2, 3})


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(observed([0, 1, 2], START), id="nothing happened"),
        pytest.param(
            observed([0, 1, 2], START, seen(2, 1, {2, 3}), broker(1, "fenced"), broker(1, "registered"),
                     broker(1, "unfenced"), seen(2, 1, {1, 2, 3}), seen(1, 2, {1, 2, 3})),
            id="a broker went, came and leads again",
        ),
        pytest.param(
            observed([0, 1, 2], seen(3, 2, {3}, {2}), seen(-1, 3, set(), {2, 3}),
                     seen(2, 4, {2})),
            id="an eligible one leads after there was none",
        ),
        pytest.param(
            observed([0, 1, 2], seen(-1, 3, set(), (), {2}), seen(2, 4, {2})),
            id="the last leader leads where nobody is left",
        ),
        pytest.param(
            observed([0, 1, 2], seen(-1, 3, set(), {3}, {2}), seen(2, 4, {2}), broker(3, "registered")),
            id="the last leader leads when the last eligible one turns out to have ended uncleanly",
        ),
    ],
)  # fmt: skip
def test_what_is_allowed_breaks_nothing(kept: Observed):
    assert broken(kept) == []


def test_a_record_of_which_nothing_was_heard_may_be_there_or_not():
    for log in ([0, 1, 2], [0, 1]):
        found = observed(log, START)
        unheard = replace(found.sent[2], acknowledged_ms=None, offset=None)
        assert broken(replace(found, sent=(*found.sent[:2], unheard))) == []
        assert replace(found, sent=(*found.sent[:2], unheard)).errors == {2: "nothing heard"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (observed([0, 1], START), "acknowledged and lost: [2]"),
        (observed([0, 1, 2, 2], START), "written twice: [2]"),
        (observed([0, 1, 2, 9], START), "sent by nobody: [9]"),
        (observed([1, 0, 2], START), "after records that were sent later: [0]"),
        (observed([0, 2, 1], START), "1 is not at 1, as its acknowledgement says"),
        (observed([0, 1, 2], START, seen(2, 0, {2, 3})), "two leaders with one epoch"),
        (observed([0, 1, 2], seen(1, 4, {1, 2}), seen(1, 3, {1, 2})), "the leader epoch goes back"),
        (observed([0, 1, 2], seen(1, 4, {1, 2}), seen(3, 5, {3})), "was neither in sync nor eligible"),
        (observed([0, 1, 2], seen(-1, 4, set()), seen(3, 5, {3})), "was neither in sync nor eligible"),
        (observed([0, 1, 2], seen(-1, 4, set(), {2}, {3}), seen(3, 5, {3})), "was neither in sync nor eligible"),
        (observed([0, 1, 2], START, seen(2, 1, {2}), broker(2, "registered")), "was neither in sync nor eligible"),
        (observed([0, 1, 2], START, broker(2, "registered")), "was killed, is back, and counts as in sync"),
        (observed([0, 1, 2], START, seen(1, 0, {2, 3})), "leads and is not in sync"),
        (observed([0, 1, 2], START, broker(2, "fenced"), seen(2, 1, {2, 3})), "is fenced and becomes leader"),
        (observed([0, 1, 2], START, broker(2, "registered"), seen(2, 1, {2, 3})), "is fenced and becomes leader"),
    ],
)
def test_a_broken_promise_is_named(found: Observed, words: str):
    assert any(told.startswith(words) for told in broken(found)), broken(found)


def test_a_last_resort_is_told_from_an_election():
    gone, back = seen(-1, 3, set(), (), {2}), seen(2, 4, {2})
    assert last_resorts(History((START, seen(2, 1, {2}), gone, back, seen(2, 4, {1, 2}), seen(1, 5, {1, 2})))) == [
        back
    ]


def in_two_epochs(
    *epochs: int, acknowledged: int | None = 3, producer: int = PRODUCER, sequence: int = 0
) -> Observed:
    """Record 2 is at offset 2, and again from offset 3 on: in these epochs, from this sequence number on."""
    found = observed([0, 1, 2], START)
    again = [Logged(3 + at, 2, producer, epoch, sequence + at) for at, epoch in enumerate(epochs)]
    answered = replace(found.sent[2], offset=acknowledged)
    return replace(found, log=(*found.log, *again), sent=(*found.sent[:2], answered))


def test_a_record_whose_outcome_was_open_may_be_there_again_in_a_new_epoch_of_the_producer():
    found = in_two_epochs(1)
    assert broken(found) == []
    assert sent_again(found) == [found.log[2]]
    unheard = replace(found.sent[2], acknowledged_ms=None, offset=None)
    assert broken(replace(found, sent=(*found.sent[:2], unheard))) == []


def test_records_that_were_sent_once_are_not_counted_as_sent_again():
    assert sent_again(observed([0, 1, 2], START)) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(in_two_epochs(0, sequence=3), "written twice: [2]", id="in one epoch"),
        pytest.param(in_two_epochs(1, 1, acknowledged=4), "written twice: [2]", id="twice in the new epoch"),
        pytest.param(in_two_epochs(1, acknowledged=2), "written twice: [2]", id="acknowledged before"),
        pytest.param(in_two_epochs(1, acknowledged=None), "written twice: [2]", id="acknowledged without offset"),
        pytest.param(in_two_epochs(1, producer=8), "written twice: [2]", id="by another producer"),
        pytest.param(in_two_epochs(1, sequence=1), "sequence numbers of epoch 1", id="an epoch has no beginning"),
        pytest.param(in_two_epochs(0, sequence=2), "sequence numbers of epoch 0", id="a sequence number twice"),
    ],
)  # fmt: skip
def test_another_record_that_is_there_twice_breaks_a_promise(found: Observed, words: str):
    assert any(told.startswith(words) for told in broken(found)), broken(found)


def test_records_of_an_earlier_epoch_are_in_their_order():
    found = observed([0, 1, 2], START)
    earlier = (found.log[0], replace(found.log[1], number=2), replace(found.log[2], number=1))
    again = (Logged(3, 1, PRODUCER, 1, 0), Logged(4, 2, PRODUCER, 1, 1))
    answered = tuple(replace(sent, offset=offset) for sent, offset in zip(found.sent, (0, 3, 4), strict=True))
    assert broken(replace(found, log=earlier + again, sent=answered)) == [
        "after records that were sent later in epoch 0: [1]"
    ]
