"""Scenarios in which committed records are lost or logs diverge: truncation, failover, disks."""

from __future__ import annotations

from dataclasses import replace

from backend.replication_lab.model.configuration import Configuration, Times
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import FAITHFUL, NewLeaderHw, OffByOne
from backend.replication_lab.scenarios.scenario import (
    Cue,
    Scenario,
    all_of,
    at_once,
    follows,
    has,
    has_just,
    is_chosen,
    is_without_session,
    knows_committed,
    leads,
)

_TWO = Configuration(brokers=2, replication_factor=2, min_isr=1, records=1)
_THREE = Configuration(records=1)
_NEVER_FLUSHED = Times(checkpoint=600_000)
STORE = NOBODY

LOSSES = (
    Scenario(
        name="hw-truncation-loss",
        title="A follower restarts, truncates a committed record, and leads before it has fetched it again",
        document="High-level Design, Follower failure: it first truncates its log to the last checkpointed HW",
        violated=Invariant.COMMITTED_LOST,
        configuration=_TWO,
        cues=(
            Cue(all_of(knows_committed(1, 3), has(2, 3)), (("crash", 2), ("restart", 2))),
            Cue(has_just(2, 2), (("crash", 1),), at_latest=5),
            Cue(leads(2), (("restart", 1),), at_latest=3_000),
        ),
    ),
    Scenario(
        name="log-divergence",
        title="Both replicas crash; the one that lost its tail leads, and the other keeps its old records",
        document="Detailed Design, becomeFollower: truncate the log to r.hw; start a fetcher from offset r.leo",
        violated=Invariant.LOGS_DIFFER,
        configuration=replace(_TWO, producers=2, records=2),
        cues=(
            Cue(all_of(knows_committed(1, 4), has(2, 4)), (("checkpoint", 1), ("power_loss", 2), ("crash", 1))),
            Cue(is_without_session(1), (("restart", 2),)),
            Cue(all_of(leads(2), knows_committed(2, 3)), (("restart", 1),), at_latest=1_500),
        ),
    ),
    Scenario(
        name="fast-double-failover",
        title="Two leaders fail in turn; the survivor had truncated a committed record for the second",
        document="High-level Design, Leader failure, step 3: it truncates its log to its HW and then catches up",
        violated=Invariant.COMMITTED_LOST,
        configuration=_THREE,
        cues=(
            Cue(all_of(has(2, 3), has(3, 3), knows_committed(1, 3)), (("crash", 1),)),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3),)),
            Cue(follows(3, 2), (("crash", 2),)),
            Cue(leads(3), (("restart", 1), ("restart", 2)), at_latest=3_000),
        ),
    ),
    Scenario(
        name="new-leader-hw-from-leo",
        title="A new leader counts its whole log as committed, tells a follower, and crashes",
        document="Detailed Design, becomeLeader: r.hw = r.leo // TODO: check if it should be the checkpointed HW",
        violated=Invariant.HW_FELL,
        configuration=replace(_THREE, records=2),
        cues=(
            Cue(at_once, (("cut", 1, 3), ("cut", 2, 3))),
            Cue(has(2, 3), (("crash", 1), ("begin_anew", 0))),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3), ("restart", 1))),
            Cue(all_of(follows(1, 2), knows_committed(1, 3)), (("crash", 2), ("heal", 1, 3)), at_latest=1_200),
            Cue(is_without_session(2), (("cut", STORE, 1),)),
            Cue(is_chosen(3), (("heal", STORE, 1),)),
            Cue(leads(3), (("restart", 2), ("heal", 2, 3)), at_latest=3_000),
        ),
    ),
    Scenario(
        name="new-leader-hw-from-checkpoint",
        title="The other reading of the TODO: a new leader falls back to its checkpointed HW",
        document="Detailed Design, becomeLeader: TODO: check if this should be r.hw = last checkpointed HW",
        violated=Invariant.HW_FELL,
        configuration=replace(_THREE, times=_NEVER_FLUSHED),
        readings=replace(FAITHFUL, new_leader_hw=NewLeaderHw.CHECKPOINT),
        cues=(
            Cue(all_of(knows_committed(2, 3), knows_committed(3, 3)), (("crash", 1),)),
            Cue(lambda world: leads(2)(world) or leads(3)(world), (("restart", 1),), at_latest=3_000),
        ),
    ),
    Scenario(
        name="hw-off-by-one-truncation",
        title="The HW is the offset of the last committed record, and truncating to it removes that record",
        document="High-level Design: HW is the offset of the last committed message; truncate to r.hw",
        violated=Invariant.COMMITTED_LOST,
        configuration=_THREE,
        readings=replace(FAITHFUL, off_by_one=OffByOne.TRUNCATED),
        cues=(
            Cue(all_of(knows_committed(2, 3), knows_committed(3, 3)), (("crash", 1),)),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3),)),
            Cue(follows(3, 2), (("crash", 2),)),
            Cue(leads(3), (("restart", 1), ("restart", 2)), at_latest=3_000),
        ),
    ),
    Scenario(
        name="become-follower-twice",
        title="Listener and request both make a replica follow: the second truncates what it has fetched since",
        document="Detailed Design: leader-change listener on all brokers, and becomeFollowerRequest",
        violated=Invariant.COMMITTED_LOST,
        configuration=_THREE,
        leader=2,
        cues=(
            Cue(at_once, (("crash", 2),)),
            Cue(leads(1), (("cut", STORE, 3),), at_latest=3_000),
            Cue(
                all_of(knows_committed(1, 3), has(3, 3)),
                (("heal", STORE, 3), ("request", 3), ("crash", 1)),
            ),
            Cue(leads(3), (("restart", 1), ("restart", 2)), at_latest=3_000),
        ),
    ),
    Scenario(
        name="lost-unflushed-tail",
        title="A replica restarts without its unflushed tail, still counts as in sync, and leads",
        document="High-level Design, Writes: no guarantee that any replica has persisted the message to disks",
        violated=Invariant.COMMITTED_LOST,
        configuration=_THREE,
        cues=(
            Cue(
                all_of(knows_committed(1, 3), has(2, 3), has(3, 3)),
                (("cut", 1, 2), ("power_loss", 2), ("restart", 2), ("crash", 1), ("pause", 3)),
            ),
            Cue(leads(2), (("resume", 3), ("restart", 1), ("heal", 1, 2))),
        ),
    ),
    Scenario(
        name="isr-written-by-the-replaced",
        title="A leader that was replaced while paused overwrites the new leader's ISR",
        document="Detailed Design, committer thread: write p.ISR to ZK, whatever stands there",
        violated=Invariant.COMMITTED_LOST,
        configuration=replace(_THREE, records=2),
        cues=(
            Cue(has(1, 3), (("pause", 1), ("begin_anew", 0))),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3),)),
            Cue(
                all_of(leads(2), knows_committed(2, 3)),
                (("cut", 1, 2), ("resume", 1), ("late", 1, 3, 3), ("shrink", 1, 2), ("crash", 1), ("pause", 3)),
                at_latest=4_000,
            ),
            Cue(is_without_session(1), (("restart", 1), ("crash", 2))),
            Cue(leads(1), (("resume", 3), ("restart", 2), ("heal", 1, 2))),
        ),
    ),
)
