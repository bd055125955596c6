"""Random commands for placements and their policies; a part of `histories`."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from backend import deciders
from backend.dispatch import Decider
from backend.domain.placement import (
    placement_aims,
    placement_policy,
    placement_proposals,
    placement_runs,
    placements,
)

CLUSTERS = tuple("12345")

Directed = tuple[Decider[Any, Any], str, Any]


def placement(source: random.Random) -> Directed:
    """Return a random command for a placement: a request, a plan, or a step of a run."""
    name = f"p{source.randint(1, 3)}"
    aims = placement_aims.Aims(
        target_brokers=source.choice((None, (1, 2))),
        replication_factors=source.choice(({}, {"orders": 3})),
        excluded_topics=source.choice(((), ("orders",))),
    )
    request = placements.RequestPlacement(
        placement=name, cluster=source.choice(CLUSTERS), aims=aims, known_clusters=frozenset(CLUSTERS)
    )
    proposal = placement_proposals.Proposal(policy="apply", joined=(4,), left=source.choice(((), (1,))))
    limits: placement_runs.NamedLimits = source.choice(({}, {"bytes_per_second": 1000}, {"moves_per_broker": 2}))
    apply = placement_runs.StartApplying(digest="1f2e", limits=limits, busy={})
    command: placements.PlacementCommand = source.choice(
        (
            request,
            replace(request, proposal=proposal),
            placement_proposals.HoldBack(reason="two of three brokers are away"),
            placements.RecordPlan(digest="1f2e", summary={"moves": source.randint(0, 9)}),
            placements.RecordFailure(reason="nobody answers"),
            apply,
            placement_runs.StartRollback(limits={}, busy={}),
            placement_runs.Pause(),
            placement_runs.Resume(),
            placement_runs.Cancel(),
            placement_runs.RefuseRun(run=source.randint(1, 2), reason="topics were deleted"),
            *(
                placement_runs.EndRun(run=run, after=after, report={"arrived": source.randint(0, 9)})
                for run in (1, 2, 3)
                for after in placement_runs.COMES_TO
            ),
        )
    )
    return deciders.PLACEMENT, f"placement-{name}", command


def policy(source: random.Random) -> Directed:
    """Return a random command that sets a placement policy."""
    name = source.choice(CLUSTERS)
    command = placement_policy.SetPolicy(
        cluster=name,
        wanted=placement_policy.PlacementPolicy(
            policy=source.choice(tuple(placement_policy.Policy)), away_minutes=source.randint(0, 60)
        ),
        present=placement_policy.PlacementPolicy(),
        known_clusters=frozenset(CLUSTERS),
    )
    return deciders.PLACEMENT_POLICY, placement_policy.event_stream(name), command
