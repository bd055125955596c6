"""The rule with one of its parts left out: the simulation must find out, or it proves nothing of that part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.distribution import rerooting, rescan
from backend.domain.records.log_prefix import LogPrefix
from tests.unit.simulation.test_changes import check
from tests.unit.simulation.world import World

STORIES = 400
find_start, find_origin = rescan.start, LogPrefix.origin_of


def sessions_that_do_not_ask(patch):
    patch.setattr(World, "may_open", lambda world, plan: True)


def barriers_that_do_not_fence(patch):
    patch.setattr(World, "fence_inbound", lambda world, cluster, task: None)


def reading_on_at_the_own_position(patch):
    """Copy whatever the target lacks of origins that come this way only now."""
    patch.setattr(rescan, "start", lambda candidates, *_: (list(candidates) or [rescan.BEGINNING])[-1])


def rescans_that_forget_what_lay_before(patch):
    patch.setattr(rescan, "start", lambda *given: replace(find_start(*given), seen={}))


def headers_believed_whatever_was_seen(patch):
    """Take the output of a stream processor for a copy."""

    def origin_of(prefix, offset, found):
        prefix.seen.pop(found.cluster if found else 0, None)
        return find_origin(prefix, offset, found)

    patch.setattr(LogPrefix, "origin_of", origin_of)


def no_rerooting(patch):
    patch.setattr(rerooting, "roots", lambda *_: {})


@pytest.mark.parametrize(
    "mutant",
    [
        sessions_that_do_not_ask,
        barriers_that_do_not_fence,
        reading_on_at_the_own_position,
        rescans_that_forget_what_lay_before,
        headers_believed_whatever_was_seen,
        no_rerooting,
    ],
)
def test_the_simulation_finds(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(STORIES):
            check(seed)
