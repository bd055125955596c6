"""An offset set again for the same progress is never below the committed one, unless that is in another log."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from backend.domain.offsets.commit_rules import CommittedOffset
from backend.domain.offsets.offset_map import GroupPartition, Progress
from backend.domain.offsets.target_log import ChosenOffset
from workers.offsets.applied import Applied
from workers.offsets.offset_choice import Resumption
from workers.offsets.offset_setter import DueOffset, OffsetSetter, _never_back

WHOSE = GroupPartition(tenant="a", instance="b", environment="c", stream="d", partition=0, group="g")
PROGRESS = Progress(timestamp_ms=1, committed_at_ms=5, generation=1, vector={}, offset=3)


def work(incarnation, before=1):
    applied = Applied(
        technical_group="g", state="applied", reason=None, origin_cluster="c2", generation=1, committed_at_ms=5,
        offset=100, incarnation=before,
    )  # fmt: skip
    return DueOffset(
        group_partition=WHOSE, group="g", topic="t", newest=("c2", PROGRESS), flags=1, own=None, exact=True,
        before=applied, renew=False, in_other_topic=False, incarnation=incarnation,
    )  # fmt: skip


def test_what_stands_is_set_once_more_before_the_cluster_forgets_it():
    one, setter = work(1), OffsetSetter("c1", None, None, nullcontext)
    committed = CommittedOffset(offset=100, metadata=one.metadata)
    assert setter._stands(one, committed, 100)
    assert not setter._stands(replace(one, renew=True), committed, 100)
    assert not setter._stands(one, committed, 120)


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
    resumption = Resumption(
        chosen=ChosenOffset(offset=chosen, re_read_bound=0, settled=True), mode="exact", end=end
    )
    assert _never_back(one, CommittedOffset(offset=100, metadata=one.metadata), resumption) == offset
