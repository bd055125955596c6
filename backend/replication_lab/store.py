"""The coordination store ("Paths stored in Zookeeper"): linearizable, with ephemeral nodes, listeners and
requests.

    /brokers/ids/[broker_id]                              registered   ephemeral
    /brokers/topics/[topic]/[partition_id]/replicas       replicas
    /brokers/topics/[topic]/[partition_id]/leader         leader       ephemeral
    /brokers/topics/[topic]/[partition_id]/ISR            isr (and cur, which becomeLeader writes, too)
    /brokers/topics/[topic]/[partition_id]/state/[id]     requests
    /brokers/partitions_reassigned/[topic]/[partition_id] reassigned

With the mends, the leader's epoch, a version of the ISR and the eligible leader replicas stand beside them.
"""

from __future__ import annotations

from enum import StrEnum

from backend.replication_lab.messages import NOBODY


class Request(StrEnum):
    """State-change requests, by the names in stateChangeListener."""

    BECOME_FOLLOWER = "becomeFollowerRequest"
    REPLICA_ASSIGNED = "replicaAssignedRequest"
    REPLICA_UNASSIGNED = "replicaUnassignedRequest"
    DELETE_REPLICA = "deleteReplicaRequest"


class Store:
    """The nodes. Who has to be told of a change is for `notices` to say: it is asked after each write."""

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
        """Who led last: the last resort where nobody is left that has all that is committed (KIP-966)."""
        self.isr: frozenset[int] = frozenset()
        self.isr_version = 0
        self.cur: frozenset[int] = frozenset()
        self.elr: frozenset[int] = frozenset()
        """Eligible leader replicas: not in sync, but they have all that is committed (KIP-966)."""
        self.reassigned: tuple[int, ...] = ()
        self.requests: dict[int, tuple[Request, ...]] = {}
        self.deleted = False

    def write_isr(self, isr: frozenset[int], cur: frozenset[int], elr: frozenset[int] = frozenset()) -> None:
        """As a leader writes it, whoever that is."""
        self.isr, self.cur, self.elr = isr, cur, elr
        self.isr_version += 1

    def request(self, broker: int, request: Request) -> None:
        """Put a state-change request into a broker's path; the same twice in a row is one."""
        waiting = self.requests.get(broker, ())
        if not waiting or waiting[-1] is not request:
            self.requests[broker] = (*waiting, request)

    def take_request(self, broker: int) -> Request | None:
        """The next one for it, which is gone then."""
        waiting = self.requests.get(broker, ())
        if not waiting:
            return None
        if waiting[1:]:
            self.requests[broker] = waiting[1:]
        else:
            del self.requests[broker]
        return waiting[0]

    def copy(self) -> Store:
        """Another one of the same."""
        twin = Store.__new__(Store)
        twin.registered, twin.requests = dict(self.registered), dict(self.requests)
        twin.replicas, twin.leader, twin.leader_epoch = self.replicas, self.leader, self.leader_epoch
        twin.isr, twin.isr_version, twin.cur, twin.elr = self.isr, self.isr_version, self.cur, self.elr
        twin.reassigned, twin.deleted, twin.last_leader = self.reassigned, self.deleted, self.last_leader
        return twin

    def key(self) -> tuple[object, ...]:
        """What tells two of them apart; `isr_version` does, as brokers know it or do not."""
        return (
            tuple(sorted(self.registered.items())), self.replicas, self.leader, self.leader_epoch, self.isr,
            self.cur, self.elr, self.reassigned, tuple(sorted(self.requests.items())), self.deleted,
            self.last_leader,
        )  # fmt: skip
