"""Re-read records in an emergency: all that a group has read, or an estimate."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from backend.domain.switch import switch_re_reads
from backend.domain.switch.switch_facts import OffsetFact
from backend.domain.switch.switch_re_reads import FAR_BEHIND, NOTHING_SET, READS_ON, SILENT, in_emergency

KNOWN = OffsetFact(
    stream="acme/retail/prod/orders",
    partition=0,
    group="g",
    technical_group="t-g",
    committed=100,
    state="applied",
    re_read_bound=7,
    offset=90,
    settled=True,
)
PENDING = replace(KNOWN, state="pending")
ASKED = {"committed": 130, "has_members": False, "source_end": 150, "target_end": 140, "lacking": 10}


@pytest.mark.parametrize(
    ("known", "asked", "bound", "estimate"),
    [
        (KNOWN, {}, 7 + 30, None),  # idle: what it has committed since comes again, and nothing else
        (KNOWN, {"committed": 100}, 7, None),
        (KNOWN, {"has_members": True}, 7 + 50, READS_ON),  # at work: it may have read up to the end
        (replace(KNOWN, settled=False), {}, 7 + 30 + 10, None),  # what is on its way comes behind the offset
        (PENDING, {}, 50 + 10, FAR_BEHIND),
        (PENDING, {"target_end": None}, None, FAR_BEHIND),
        (KNOWN, {"source_end": None, "committed": None, "lacking": None}, 50, SILENT),
        (KNOWN, {"source_end": None, "target_end": None}, 7, SILENT),
        (replace(KNOWN, offset=None), {}, None, NOTHING_SET),
        (None, {}, None, NOTHING_SET),
    ],
)
def test_the_bound_has_commits_that_are_not_carried_over_yet(known, asked, bound, estimate):
    found = in_emergency(known, **{**ASKED, **asked})
    assert (found.bound, found.estimate) == (bound, estimate)


def test_a_bound_that_is_no_estimate_holds_for_random_histories():
    """One log on both sides, the target a prefix of it; the group has read so far, and goes on at what was set."""
    dice = random.Random(7)
    for _ in range(2_000):
        end = dice.randint(1, 300)
        read = dice.randint(0, end)
        carried = dice.randint(0, read)  # the commit that was carried over, when the target was so long:
        there_then = dice.randint(0, end)
        target = dice.randint(there_then, end)
        offset = dice.randint(0, min(carried, there_then))
        known = replace(
            KNOWN,
            committed=carried,
            offset=offset,
            re_read_bound=min(carried, there_then) - offset,
            settled=there_then >= carried,
        )
        found = in_emergency(
            known, committed=read, has_members=False, source_end=end, target_end=target, lacking=end - there_then
        )
        again = sum(1 for record in range(end) if offset <= record < read)
        assert found.estimate is None and found.bound is not None and again <= found.bound


def test_a_planned_switch_says_that_it_sets_offsets_anew():
    assert switch_re_reads.planned(KNOWN) == switch_re_reads.ReRead(bound=7, estimate=switch_re_reads.SET_ANEW)
