"""The committer's rules: in whatever order it comes, a group ends at its latest progress and never goes back."""

from __future__ import annotations

import random

import pytest

from backend.domain.offsets import commit_metadata
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.commit_rules import Action, CommittedOffset, OwnCommit, commit_time, decide
from backend.domain.offsets.offset_map import End, Progress, newest

HERE, THERE = "cluster-1", "cluster-2"


def progress(at, offset=10, generation=1):
    return Progress(timestamp_ms=1, committed_at_ms=at, generation=generation, vector={}, offset=offset)


def ours(at, offset, cluster=THERE, generation=1):
    mark = CommitMark(flags=2, timestamp_ms=1, committed_at_ms=at, generation=generation, cluster=cluster)
    return CommittedOffset(offset=offset, metadata=commit_metadata.encode(mark))


NOTHING, FRESH = CommittedOffset(offset=None), CommittedOffset(offset=10, metadata="")


@pytest.mark.parametrize(
    ("latest", "own", "committed", "action"),
    [
        ((THERE, progress(5)), None, NOTHING, Action.APPLY),
        ((THERE, progress(5)), None, ours(4, 3), Action.APPLY),
        ((THERE, progress(5)), None, ours(5, 3), Action.APPLY),  # once more: the log has grown
        ((THERE, progress(5)), None, ours(6, 3), Action.NOTHING),
        ((THERE, progress(5, generation=2)), None, ours(6, 3), Action.APPLY),
        ((THERE, progress(5)), None, ours(6, 3, generation=2), Action.NOTHING),
        ((THERE, progress(5)), None, CommittedOffset(offset=3, metadata="treeline:9;newer"), Action.APPLY),
        ((THERE, progress(5)), None, FRESH, Action.WAIT),
        ((THERE, progress(5)), progress(4), FRESH, Action.APPLY),
        ((THERE, progress(5)), progress(4, offset=9), FRESH, Action.WAIT),
        ((HERE, progress(5)), progress(5), FRESH, Action.NOTHING),
        ((HERE, progress(5, offset=9)), progress(5, offset=9), FRESH, Action.WAIT),
        ((HERE, progress(5)), progress(5), ours(4, 3), Action.PUT_BACK),
        ((HERE, progress(5)), progress(5), ours(5, 10, cluster=HERE), Action.NOTHING),
        ((HERE, progress(5)), progress(5), ours(6, 3), Action.NOTHING),
        ((HERE, progress(5)), progress(5), NOTHING, Action.NOTHING),
    ],
)
def test_what_is_done(latest, own, committed, action):
    assert decide(HERE, latest, own, committed) is action


@pytest.mark.parametrize(
    ("committed", "action"),
    [
        (NOTHING, Action.APPLY),
        (ours(5, 3, cluster=HERE), Action.APPLY),  # once more: the log has grown
        (ours(6, 3), Action.NOTHING),
        (FRESH, Action.NOTHING),
        (CommittedOffset(offset=3, metadata=""), Action.WAIT),
    ],
)
def test_progress_goes_on_in_a_topic_that_was_made_anew(committed, action):
    assert decide(HERE, (HERE, progress(5)), progress(5), committed, in_other_topic=True) is action


@pytest.mark.parametrize(
    ("moments", "latest"),
    [
        ({THERE: progress(5), HERE: End(committed_at_ms=6, generation=1)}, None),
        ({THERE: progress(6), HERE: End(committed_at_ms=6, generation=1)}, None),
        ({THERE: progress(7), HERE: End(committed_at_ms=6, generation=1)}, THERE),
        ({THERE: progress(5, generation=2), HERE: End(committed_at_ms=6, generation=1)}, THERE),
        ({THERE: progress(6), HERE: progress(6)}, THERE),
        ({HERE: End(committed_at_ms=6, generation=1)}, None),
        ({}, None),
    ],
)
def test_what_was_made_before_an_end_counts_no_more(moments, latest):
    found = newest(moments.items())
    assert found == (None if latest is None else (latest, moments[latest]))


class Place:
    """One cluster's committer and group, beside commits made elsewhere.

    `is_for`: the order of the progress that is in force, as an omniscient observer knows it.
    """

    def __init__(self):
        self.made, self.to_come, self.known = [], [], {}
        self.committed, self.is_for = NOTHING, (0, 0)

    def commit(self, cluster):
        # Forth and back, never twice the same: two commits at one offset cannot be told apart by what stands, and
        # the earlier one's rules then hold until the later one is on the map.
        one = progress(len(self.made) + 1, offset=len(self.made) * 7 % 53)
        self.made.append((cluster, one))
        self.to_come.append((cluster, one))
        if cluster == HERE:
            self.committed, self.is_for = CommittedOffset(offset=one.offset, metadata=""), one.order

    def arrive(self):
        if self.to_come:
            cluster, one = self.to_come.pop(0)
            self.known[cluster] = one

    def act(self, race=False):
        found = newest(self.known.items())
        if found is None:
            return
        cluster, latest = found
        action = decide(HERE, found, self.known.get(HERE), self.committed)
        if race:
            # Between the question and the answer: it is overwritten, and found out later.
            self.commit(HERE)
        if action is Action.APPLY:
            assert cluster != HERE, "what was committed here is nobody's to set"
            assert race or latest.order >= self.is_for, "back to earlier progress"
            self.committed, self.is_for = ours(latest.committed_at_ms, 100, cluster), latest.order
        elif action is Action.PUT_BACK:
            assert cluster == HERE and (race or latest.order >= self.is_for)
            self.committed, self.is_for = ours(latest.committed_at_ms, latest.offset, HERE), latest.order

    def settle(self):
        while self.to_come:
            self.arrive()
            self.act()
        self.act()

    def is_at_the_latest(self):
        if not self.made:
            return self.committed == NOTHING
        cluster, one = self.made[-1]
        if cluster == HERE:
            return self.committed.offset == one.offset and self.is_for == one.order
        return self.committed.mark is not None and self.committed.mark.order == one.order


@pytest.mark.parametrize("seed", range(500))
def test_it_ends_at_the_latest_progress_whatever_the_order(seed):
    """Commit here and on two other clusters while the committer acts between arrivals on the map.

    Commits made here also come between its question and its answer; at last everything is delivered once more.
    """
    place, source = Place(), random.Random(seed)
    for _ in range(source.randint(1, 40)):
        step = source.random()
        if step < 0.2:
            place.commit(source.choice((THERE, "cluster-3")))
        elif step < 0.35:
            place.commit(HERE)
        elif step < 0.65:
            place.arrive()
        else:
            place.act(race=source.random() < 0.2)
    place.settle()
    assert place.is_at_the_latest()
    place.to_come = list(place.made)
    place.settle()
    assert place.is_at_the_latest(), "a replay changed it"


@pytest.mark.parametrize(
    ("own", "read_at", "broker_ms", "is_behind"),
    [
        (OwnCommit(7, 100, 90, 50), 49, 80, True),
        (OwnCommit(7, 100, 90, 50), 49, 90, True),
        (OwnCommit(7, 100, 90, 50), 49, None, True),
        (OwnCommit(7, 100, None, 50), 49, 80, True),
        (OwnCommit(7, 100, 90, 50), 50, 90, False),  # the same one, read again
        (OwnCommit(7, 100, 90, 50), 51, 80, False),  # a clock that was set back
        (OwnCommit(7, 100, 90, 50), 51, None, False),
        (OwnCommit(7, 100, 90, 50), 20, 95, False),  # the log was cut off
        (OwnCommit(7, 100, 90), 49, 80, False),
    ],
)
def test_whoever_is_slow_makes_no_older_commit_the_newest(own, read_at, broker_ms, is_behind):
    assert own.is_behind(read_at, broker_ms) is is_behind


OWN, APPLIED = OwnCommit(7, 100, 90), 200
OF_LONG_AGO = OwnCommit(7, 100, None)


@pytest.mark.parametrize(
    ("at", "offset", "own", "applied", "ordered"),
    [
        (150, 9, None, None, 150),
        (150, 9, OWN, None, 150),
        (100, 9, OWN, None, 101),
        (90, 9, OWN, None, 101),
        (90, 9, OWN, APPLIED, 201),
        (150, 9, None, APPLIED, 201),
        (250, 9, OWN, APPLIED, 250),
        (250, 9, OWN, 2**62, 2**62),
        # The same commit, read once more, is no later than it was; another one at the same offset is, also by a
        # clock that is behind the one of a cluster where the group had been meanwhile.
        (90, 7, OWN, APPLIED, 100),
        (95, 7, OWN, APPLIED, 201),
        (120, 7, OWN, APPLIED, 201),
        (100, 7, OF_LONG_AGO, APPLIED, 100),
        (120, 7, OF_LONG_AGO, APPLIED, 201),
    ],
)
def test_a_commit_is_later_than_what_stood_before_it_whatever_the_clocks(at, offset, own, applied, ordered):
    assert commit_time(at, offset, own, applied) == ordered
