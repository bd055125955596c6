"""The coordination store ("Paths stored in Zookeeper"): linearizable, with ephemeral nodes and listeners.

    /brokers/ids/[broker_id]                              registered   ephemeral
    /brokers/topics/[topic]/[partition_id]/replicas       replicas
    /brokers/topics/[topic]/[partition_id]/leader         leader       ephemeral
    /brokers/topics/[topic]/[partition_id]/ISR            isr (and cur, which becomeLeader writes, too)
    /brokers/topics/[topic]/[partition_id]/state/[id]     requests
    /brokers/partitions_reassigned/[topic]/[partition_id] reassigned

With the fixes, the leader's epoch, a version of the ISR and the eligible leader replicas are stored as well.
"""

from __future__ import annotations

from enum import StrEnum

from backend.replication_lab.model.messages import NOBODY


class Request(StrEnum):
    """State-change requests, by their names in stateChangeListener."""

    BECOME_FOLLOWER = "becomeFollowerRequest"
    REPLICA_ASSIGNED = "replicaAssignedRequest"
    REPLICA_UNASSIGNED = "replicaUnassignedRequest"
    DELETE_REPLICA = "deleteReplicaRequest"


class Store:
    """Nodes of the store. Writers notify listeners themselves, after each write."""

    __slots__ = (
        "cur", "deleted", "elr", "isr", "isr_version", "last_leader", "leader", "leader_epoch", "reassigned",
        "registered",
        "replicas", "requests",
    )  # fmt: skip

    def __init__(self, replicas: tuple[int, ...]) -> None:
        self.registered: dict[int, int] = {}
        """Live brokers, with the incarnation that registered."""
        self.replicas = replicas
        self.leader = NOBODY
        self.leader_epoch = 0
        self.last_leader = NOBODY
        """The last leader: the last resort if no replica with all committed records is left (KIP-966)."""
        self.isr: frozenset[int] = frozenset()
        self.isr_version = 0
        self.cur: frozenset[int] = frozenset()
        self.elr: frozenset[int] = frozenset()
        """Eligible leader replicas (ELR): not in sync, but with all committed records (KIP-966)."""
        self.reassigned: tuple[int, ...] = ()
        self.requests: dict[int, tuple[Request, ...]] = {}
        self.deleted = False

    def write_isr(self, isr: frozenset[int], cur: frozenset[int], elr: frozenset[int] = frozenset()) -> None:
        """Write the ISR unconditionally."""
        self.isr, self.cur, self.elr = isr, cur, elr
        self.isr_version += 1

    def request(self, broker: int, request: Request) -> None:
        """Append a state-change request to a broker's path; a repeated request is stored once."""
        waiting = self.requests.get(broker, ())
        if not waiting or waiting[-1] is not request:
            self.requests[broker] = (*waiting, request)

    def take_request(self, broker: int) -> Request | None:
        """Remove and return the broker's next request."""
        waiting = self.requests.get(broker, ())
        if not waiting:
            return None
        if waiting[1:]:
            self.requests[broker] = waiting[1:]
        else:
            del self.requests[broker]
        return waiting[0]

    def copy(self) -> Store:
        """Return a copy."""
        twin = Store.__new__(Store)
        twin.registered, twin.requests = dict(self.registered), dict(self.requests)
        twin.replicas, twin.leader, twin.leader_epoch = self.replicas, self.leader, self.leader_epoch
        twin.isr, twin.isr_version, twin.cur, twin.elr = self.isr, self.isr_version, self.cur, self.elr
        twin.reassigned, twin.deleted, twin.last_leader = self.reassigned, self.deleted, self.last_leader
        return twin

    def key(self) -> tuple[object, ...]:
        """Return a key that distinguishes two states; `isr_version` counts as far as brokers know it."""
        return (
            tuple(sorted(self.registered.items())), self.replicas, self.leader, self.leader_epoch, self.isr,
            self.cur, self.elr, self.reassigned, tuple(sorted(self.requests.items())), self.deleted,
            self.last_leader,
        )  # fmt: skip
