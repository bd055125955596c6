"""The committer's rules: in whatever order it comes, a group ends at its latest progress and never goes back."""

from __future__ import annotations

import random

import pytest

from backend.domain import commit_metadata
from backend.domain.commit_metadata import CommitMark
from backend.domain.committing import Action, Standing, decide
from backend.domain.offset_map import Progress, newest

HERE, THERE = "cluster-1", "cluster-2"


def progress(at, offset=10, generation=1):
    return Progress(timestamp_ms=1, committed_at_ms=at, generation=generation, vector={}, offset=offset)


def ours(at, offset, cluster=THERE, generation=1):
    mark = CommitMark(flags=2, timestamp_ms=1, committed_at_ms=at, generation=generation, cluster=cluster)
    return Standing(offset=offset, metadata=commit_metadata.encode(mark))


NOTHING, FRESH = Standing(offset=None), Standing(offset=10, metadata="")


@pytest.mark.parametrize(
    ("latest", "own", "standing", "action"),
    [
        ((THERE, progress(5)), None, NOTHING, Action.APPLY),
        ((THERE, progress(5)), None, ours(4, 3), Action.APPLY),
        ((THERE, progress(5)), None, ours(5, 3), Action.APPLY),  # once more: the log has grown
        ((THERE, progress(5)), None, ours(6, 3), Action.NOTHING),
        ((THERE, progress(5, generation=2)), None, ours(6, 3), Action.APPLY),
        ((THERE, progress(5)), None, ours(6, 3, generation=2), Action.NOTHING),
        ((THERE, progress(5)), None, Standing(offset=3, metadata="treeline:9;newer"), Action.APPLY),
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
def test_what_is_done(latest, own, standing, action):
    assert decide(HERE, latest, own, standing) is action


@pytest.mark.parametrize("seed", range(500))
def test_it_ends_at_the_latest_progress_whatever_the_order(seed):
    """Commits here and there; maps come in any order, some twice; the committer acts between; commits made here
    also come between its question and its answer."""
    source = random.Random(seed)
    made, known, standing = [], {}, NOTHING
    to_come = []
    applied = []

    def act(race):
        nonlocal standing
        found = newest(known.items())
        if found is None:
            return
        cluster, latest = found
        seen = standing
        if race:
            fresh()
        action = decide(HERE, found, known.get(HERE), seen)
        if action in (Action.APPLY, Action.PUT_BACK):
            offset = latest.offset if action is Action.PUT_BACK else 100 + latest.committed_at_ms
            standing = ours(latest.committed_at_ms, offset, cluster)
            applied.append(latest.order)

    def fresh():
        nonlocal standing
        one = progress(len(made) + 1, offset=source.randint(0, 5))
        made.append((HERE, one))
        to_come.append((HERE, one))
        standing = Standing(offset=one.offset, metadata="")

    def arrive(cluster, one):
        # The topic is compacted and in order for each key; a replay brings old ones again, then the newer ones.
        known[cluster] = one

    for _ in range(source.randint(1, 25)):
        step = source.random()
        if step < 0.25:
            one = progress(len(made) + 1)
            made.append((THERE, one))
            to_come.append((THERE, one))
        elif step < 0.4:
            fresh()
        elif step < 0.7 and to_come:
            arrive(*to_come.pop(0))
        else:
            act(race=source.random() < 0.2)
    for each in [*made, *to_come]:  # everything once more: a replay
        arrive(*each)
        act(race=False)
    for _ in range(3):
        act(race=False)
    last = max(made, key=lambda each: each[1].order, default=None)
    if last is None:
        assert standing == NOTHING
    elif last[0] == HERE:
        assert standing.offset == last[1].offset, "what it committed here itself, as it was"
    else:
        assert standing.mark is not None and standing.mark.order == last[1].order
