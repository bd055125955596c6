"""Scenarios about answers to producers and readers, about leadership and the ISR."""

from __future__ import annotations

from dataclasses import replace

from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import FAITHFUL, OffByOne
from backend.replication_lab.scenarios.scenario import (
    Cue,
    Scenario,
    all_of,
    at_once,
    has,
    has_just,
    is_chosen,
    is_without_session,
    knows_committed,
    leads,
)

_THREE = Configuration(records=1)
STORE = NOBODY

ACKNOWLEDGEMENTS = (
    Scenario(
        name="duplicate-after-retry",
        title="A slow follower delays the answer; the producer retries, and the record is written twice",
        document="High-level Design, Leader failure, 2: ideally ensure that the messages are not written twice",
        violated=Invariant.WRITTEN_TWICE,
        configuration=_THREE,
        cues=(
            Cue(at_once, (("slow", 3),)),
            Cue(has_just(1, 4), (("fast", 3),), at_latest=900),
        ),
    ),
    Scenario(
        name="second-leader-failure",
        title="The leader crashes after it appended a record and before it answered: the open issue on atomicity",
        document="High-level Design, Open Issues: how can atomicity be guaranteed in the 2nd type of failure",
        violated=Invariant.WRITTEN_TWICE,
        configuration=_THREE,
        cues=(
            Cue(at_once, (("cut", 1, 3),)),
            Cue(has(2, 3), (("crash", 1),)),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3),)),
            Cue(leads(2), (("heal", 1, 3),), at_latest=3_000),
            Cue(lambda world: not world.producers[0].left, (("restart", 1),), at_latest=3_000),
        ),
    ),
    Scenario(
        name="step-down-before-acknowledgement",
        title="The committer yields to the preferred replica before it acknowledges, and its thread stops",
        document="Detailed Design, committer thread: checkLoadBalancing() comes before r.hw = pr.offset and ACK",
        violated=Invariant.UNANSWERED,
        configuration=_THREE,
        leader=2,
        cues=(),
    ),
    Scenario(
        name="reassignment-before-acknowledgement",
        title="The committer hands over to reassigned replicas before it acknowledges, and its thread stops",
        document="Detailed Design, checkReassignedReplicas: delete .../leader in ZK; stop this commit thread",
        violated=Invariant.UNANSWERED,
        configuration=replace(_THREE, brokers=4, records=40),
        cues=(Cue(at_once, (("reassign", 2, 3, 4),)),),
    ),
    Scenario(
        name="two-leaders",
        title="A paused leader resumes, drops all followers from its ISR, and commits beside the new leader",
        document="Detailed Design, paths: leader is ephemeral; produceRequestHandler asks this broker's memory",
        violated=Invariant.TWO_LEADERS,
        configuration=replace(_THREE, records=2, min_isr=1),
        cues=(
            Cue(has(1, 3), (("pause", 1), ("begin_anew", 0))),
            Cue(is_without_session(1), (("cut", STORE, 3),)),
            Cue(is_chosen(2), (("heal", STORE, 3),)),
            Cue(
                all_of(leads(2), knows_committed(2, 3)),
                (
                    ("resume", 1),
                    ("late", 1, 3, 3),
                    ("late", 1, 3, 2),
                    ("commit", 1),
                    ("shrink", 1, 2),
                    ("shrink", 1, 3),
                ),
                at_latest=4_000,
            ),
        ),
    ),
    Scenario(
        name="isr-shrunk-to-one",
        title="min.insync.replicas is checked when a record arrives; all followers leave the ISR while it waits",
        document="ADS, Replication: the minimum is checked when the producer requests acknowledgment",
        violated=Invariant.BELOW_MIN_ISR,
        configuration=_THREE,
        cues=(
            Cue(at_once, (("pause", 2), ("pause", 3))),
            Cue(lambda world: world.store.isr == {1}, (("resume", 2), ("resume", 3)), at_latest=4_000),
        ),
    ),
    Scenario(
        name="cur-passed-as-ar",
        title="leaderElection passes CUR where becomeLeader takes AR: other replicas are forgotten",
        document="Detailed Design, leaderElection: becomeLeader(r, ISR, CUR); its declaration: (r, ISR, AR)",
        violated=Invariant.FORGOTTEN,
        configuration=_THREE,
        readings=replace(FAITHFUL, passes_ar=False),
        cues=(
            Cue(at_once, (("crash", 1),)),
            Cue(lambda world: leads(2)(world) or leads(3)(world), (("restart", 1),), at_latest=3_000),
        ),
    ),
    Scenario(
        name="hw-off-by-one-read",
        title="A follower that fetches from an offset counts as having it, and readers see the record too early",
        document="Detailed Design: pr.offset = log.LEO, leo = f.offset; HW: offset of the last committed message",
        violated=Invariant.UNCOMMITTED_READ,
        configuration=_THREE,
        readings=replace(FAITHFUL, off_by_one=OffByOne.REACHED),
        cues=(),
    ),
    Scenario(
        name="committer-variable-is-a-follower",
        title="The r of r.hw = pr.offset is the replica that the loop visited last: the leader's HW never rises",
        document="Detailed Design, committer thread: r.hw = pr.offset after for each r in ISR",
        violated=Invariant.NOT_READABLE,
        configuration=_THREE,
        readings=replace(FAITHFUL, committer_sets_leader_hw=False),
        cues=(),
    ),
    Scenario(
        name="committer-variable-is-the-leader",
        title="The r of r.hw = pr.offset is the leader: only its HW rises, and followers truncate below it",
        document="Detailed Design, committer thread: r.hw = pr.offset; followers learn it with their next fetch",
        violated=Invariant.COMMITTED_LOST,
        configuration=Configuration(brokers=2, replication_factor=2, min_isr=1, records=1),
        cues=(
            Cue(
                all_of(lambda world: world.brokers[1].hw >= 3, has(2, 3)),
                (("cut", 1, 2), ("session_expiry", 2), ("crash", 2), ("restart", 2), ("crash", 1)),
            ),
            Cue(is_chosen(2), (("heal", 1, 2), ("restart", 1))),
        ),
    ),
    Scenario(
        name="min-isr-never-reached",
        title="The first leader starts alone: min.insync.replicas refuses all, yet only a commit extends the ISR",
        document="Detailed Design, committer thread: p.ISR.add(c) when a request is committed; ADS: min ISR",
        violated=Invariant.NEVER_SETTLES,
        configuration=_THREE,
        starts_empty=True,
        cues=(
            Cue(at_once, (("restart", 1),)),
            Cue(leads(1), (("restart", 2), ("restart", 3))),
        ),
    ),
    Scenario(
        name="nobody-returns-without-traffic",
        title="A restarted follower catches up, but does not rejoin the ISR without traffic",
        document="High-level Design, Follower failure: when it fully catches up, the leader will add it back",
        violated=Invariant.NEVER_SETTLES,
        configuration=replace(_THREE, producers=0),
        isr=frozenset({1, 2}),
        cues=(),
    ),
)
