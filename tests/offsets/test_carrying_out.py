"""An offset set again for the same progress is never below the committed one, unless that is in another log."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from backend.domain.offsets.committing import Standing
from backend.domain.offsets.offset_map import Follower, Progress
from backend.domain.offsets.target_log import Chosen
from workers.offsets.applied import Applied
from workers.offsets.carrying_out import Carrier, Work, _never_back
from workers.offsets.choosing import Going

WHOSE = Follower(tenant="a", instance="b", environment="c", stream="d", partition=0, group="g")
PROGRESS = Progress(timestamp_ms=1, committed_at_ms=5, generation=1, vector={}, offset=3)


def work(incarnation, before=1):
    applied = Applied(
        technical_group="g", state="applied", reason=None, origin_cluster="c2", generation=1, committed_at_ms=5,
        offset=100, incarnation=before,
    )  # fmt: skip
    return Work(
        follower=WHOSE, group="g", topic="t", newest=("c2", PROGRESS), flags=1, own=None, exact=True,
        before=applied, renew=False, in_other_topic=False, incarnation=incarnation,
    )  # fmt: skip


def test_what_stands_is_set_once_more_before_the_cluster_forgets_it():
    one, carrier = work(1), Carrier("c1", None, None, nullcontext)
    standing = Standing(offset=100, metadata=one.metadata)
    assert carrier._stands(one, standing, 100)
    assert not carrier._stands(replace(one, renew=True), standing, 100)
    assert not carrier._stands(one, standing, 120)


@pytest.mark.parametrize(
    ("incarnation", "chosen", "end", "offset"),
    [
        (1, 60, 500, 100),
        (1, 120, 500, 120),
        (1, 60, 80, 80),
        # The log was truncated or re-created: the earlier offset means nothing.
        (2, 60, 500, 60),
    ],
)
def test_never_back_in_the_same_log(incarnation, chosen, end, offset):
    one = work(incarnation)
    going = Going(chosen=Chosen(offset=chosen, re_read_bound=0, settled=True), mode="exact", end=end)
    assert _never_back(one, Standing(offset=100, metadata=one.metadata), going) == offset
