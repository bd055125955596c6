"""One schedule on the real cluster and in the model.

The cluster's history is checked against the model, and the same faults run in the model with the cluster's times.
"""

from __future__ import annotations

from collections.abc import Sequence

from backend.replication_lab.model.configuration import Configuration, Times
from backend.replication_lab.runs.schedules import Fault as Planned
from backend.replication_lab.runs.schedules import Run, run_schedule
from tests.support.drills.cluster import LAG_MS, MIN_IN_SYNC, NODES, SESSION_MS
from tests.support.drills.drill import Observed
from tests.support.drills.faults import Fault
from tests.support.drills.history import NO_LEADER, BrokerSeen, Seen
from tests.support.drills.permitted import Change, Verdict, permits
from tests.support.drills.permitted import Fault as Suffered

AS_THE_CLUSTER = Configuration(
    brokers=len(NODES),
    replication_factor=len(NODES),
    min_isr=MIN_IN_SYNC,
    records=1 << 30,
    gives_way=False,  # auto.leader.rebalance.enable is off there
    times=Times(session=SESSION_MS, keep_in_sync=LAG_MS, leader_election_wait=20, request=1_000, produce=5),
)
_UNTIL = {"restart": "crash", "resume": "pause"}


def permitted(observed: Observed) -> Verdict:
    """Check whether fixed mode permits the leaders and ISRs that the cluster had, in their order."""
    return permits(AS_THE_CLUSTER, events(observed))


def events(observed: Observed) -> list[Suffered | Change]:
    """Return the faults and the cluster's reactions, by time.

    A killed broker is back when it registers. A broker that the cluster gave up without a fault (a busy machine)
    lost its session.
    """
    done = [(each.began_ms, each.fault) for each in observed.done if each.fault.kind != "restart"]
    silent: set[int] = set()
    found: list[Suffered | Change] = []
    for entry in observed.history.entries:
        while done and done[0][0] <= entry.time_ms:
            began, fault = done.pop(0)
            (silent.discard if fault.kind == "resume" else silent.add)(fault.broker)
            found.append(Suffered(fault.kind, fault.broker, began))
        if isinstance(entry, Seen):
            # Where no replica in ISR or ELR is left, the last leader may come back: the model has it in the ISR.
            leader = entry.leader if entry.leader != NO_LEADER else 0
            found.append(Change(leader, entry.isr or entry.last_known, entry.time_ms))
        elif isinstance(entry, BrokerSeen):
            if entry.what == "registered" and entry.broker in silent:
                silent.discard(entry.broker)
                found.append(Suffered("restart", entry.broker, entry.time_ms))
            elif entry.what == "fenced":
                what = "fenced" if entry.broker in silent else "session_expiry"
                found.append(Suffered(what, entry.broker, entry.time_ms))
    return found


def in_the_model(faults: Sequence[Fault], seed: int) -> Run:
    """Run the same schedule in fixed mode."""
    planned = []
    for fault in faults:
        if fault.kind not in _UNTIL:
            healed = next(
                each
                for each in faults
                if _UNTIL.get(each.kind) == fault.kind and each.broker == fault.broker and each.at_ms > fault.at_ms
            )
            planned.append(
                Planned(
                    at_ms=fault.at_ms, fault=fault.kind, broker=fault.broker, for_ms=healed.at_ms - fault.at_ms
                )
            )
    return run_schedule(AS_THE_CLUSTER, planned, "fixed", seed)
