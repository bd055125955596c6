"""A world for simulations: clusters with logs in memory, and the real decision code in between.

Every cluster's log is a list. A target's state (positions with their marks, and fencing epochs) is kept as the
target's transactions would keep it. Workers are as bad as possible: any session may stop at any moment, continue
after its lease went to another one, or follow an outdated plan. Nothing here decides about records: that is
`backend.domain`'s part.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from backend.domain.distribution import edges, leaf_routes, rerooting
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import (
    DistributedStream,
    EdgePlan,
    Endpoint,
    HeaderNames,
    LeafInbound,
    TopicLife,
)
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.distribution.resume_point import find_resume_point
from backend.domain.records import marks, origin
from backend.domain.records.log_prefix import UnknownOrigin
from backend.domain.records.marks import Mark, Position
from backend.domain.records.partition_edge import PartitionEdge
from backend.domain.tree import tree_shape
from backend.domain.tree.tree_shape import Node

STREAM = "acme/retail/prod/orders"
PARTITION = (STREAM, 0)
HEADERS = HeaderNames(flags="copy-flags", origin="copy-origin", write_origin=True)


@dataclass
class Cluster:
    """A Kafka cluster with one partition of one stream."""

    number: int
    up: bool = True
    log: list[tuple[str, list]] = field(default_factory=list)
    committed: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Position group -> (offset, metadata)."""
    epochs: dict[str, int] = field(default_factory=dict)
    """Transactional id -> the epoch that may commit."""
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def fence(self, transactional_id: str) -> int:
        self.epochs[transactional_id] = self.epochs.get(transactional_id, 0) + 1
        return self.epochs[transactional_id]


@dataclass
class LeafState:
    """Routes into one leaf, as the control plane knows them."""

    digest: str = ""
    wanted: int = 0
    entered: int = 0
    ever: frozenset = frozenset()


class Session:
    """One attempt of some worker to run a task, step by step."""

    def __init__(self, plan: EdgePlan) -> None:
        self.plan = plan
        self.stage = "init"
        self.epoch = 0
        self.position = 0
        self.edge: PartitionEdge | None = None


class World:
    """Clusters 1..n; the tree's leaves are some of them."""

    def __init__(self, seed: int, root: Node, targets: dict[tuple[str, int], str], spare: int = 0) -> None:
        self.random = random.Random(seed)
        names = tree_shape.leaves(root)
        numbers = range(1, len(names) + spare + 1)
        self.clusters = {str(number): Cluster(number) for number in numbers}
        self.endpoints = {
            name: Endpoint(name=name, number=one.number, bootstrap_servers="", properties={})
            for name, one in self.clusters.items()
        }
        self.position = 0
        self.leaves: dict[str, LeafState] = {name: LeafState() for name in self.clusters}
        self.known: frozenset[int] = frozenset()
        self.roots: dict[int, dict] = {}
        self.rerooted = 0
        self.births = 0
        self.sessions: list[Session] = []
        self.barriers: dict[str, tuple[int, list[str]]] = {}
        self.set_tree(root, targets)

    # --- the control plane

    @property
    def names(self) -> tuple[str, ...]:
        return tree_shape.leaves(self.root)

    def set_tree(self, root: Node, targets: dict[tuple[str, int], str]) -> None:
        """Apply an event that sets the tree and its targets."""
        self.position += 1
        self.root, self.targets = root, dict(targets)
        self.known |= {self.clusters[name].number for name in self.names}
        self._version()

    def _version(self) -> None:
        entering = leaf_routes.inbound(self.root, self.targets)
        for name, state in self.leaves.items():
            digest = leaf_routes.digest(entering[name], self.rerooted) if name in entering else "gone"
            if digest != state.digest:
                state.digest, state.wanted = digest, self.position
                state.ever |= frozenset(entering.get(name, ()))
        desired = edges.Desired(
            root=self.root,
            targets=self.targets,
            endpoints=self.endpoints,
            leaves={n: LeafInbound(version=s.wanted, ever=s.ever) for n, s in self.leaves.items()},
            known_origins=self.known,
            streams=[
                DistributedStream(
                    stream=STREAM,
                    partitions=1,
                    technical_names=dict.fromkeys(self.clusters, "t"),
                    topics=dict.fromkeys(self.clusters, TopicLife(incarnation=1)),
                    roots={0: {number: placed[PARTITION] for number, placed in self.roots.items() if placed}},
                )
            ],
            buckets=1,
            headers=HEADERS,
        )
        self.plans = edges.plans(desired)

    def barrier_step(self, leaf: str) -> bool:
        """Take one step of a leaf's barrier: fence one more id, or, once all are fenced, record its entry."""
        state, cluster = self.leaves[leaf], self.clusters[leaf]
        if state.entered == state.wanted or leaf not in self.names or not cluster.up:
            return False
        version, left = self.barriers.setdefault(leaf, (state.wanted, sorted(state.ever)))
        if version != state.wanted:
            del self.barriers[leaf]
        elif left:
            self.fence_inbound(cluster, Task(*left.pop(), 0))
        else:
            state.entered = version
            del self.barriers[leaf]
        return True

    def fence_inbound(self, cluster: Cluster, task: Task) -> None:
        """Fence each task that was ever allowed to copy to the leaf, as a barrier does."""
        cluster.fence(task.kafka_name)

    def reroot_step(self) -> bool:
        """Release the records of origins that left the tree, once no reachable leaf moves them."""
        lost = self.known - {self.clusters[name].number for name in self.names}
        asked = [name for name in self.names if self.clusters[name].up]
        if not lost or any(self.leaves[name].entered != self.leaves[name].wanted for name in asked):
            return False
        held = {name: {PARTITION: self.vector(name)} for name in asked}
        moved = False
        for number in lost:
            found = rerooting.roots(number, self.roots.get(number, {}), self.names, held)
            if found:
                self.roots.setdefault(number, {}).update(found)
                moved = True
        if moved:
            self.position += 1
            self.rerooted = self.position
            self._version()
        return moved

    def vector(self, name: str) -> dict:
        """Return what a cluster has of each origin, by the positions of all tasks that ever copied to it."""
        found = [marks.decode_metadata(metadata).covered for _, metadata in self.clusters[name].committed.values()]
        return origin.merge(found)

    # --- workers

    def session_step(self, session: Session) -> bool:
        """Take one step of a session; return False once it can do nothing more, or nothing now."""
        plan = session.plan
        target = self.clusters[plan.target.name]
        source = self.clusters[plan.source.name]
        group = plan.task.kafka_name
        if not target.up or not source.up:
            return False
        if session.stage == "init":
            session.epoch = target.fence(group)
            session.stage = "check"
        elif session.stage == "check":
            session.stage = "read" if self.may_open(plan) else "over"
        elif session.stage == "read":
            self._take_up(session, source, target)
            session.stage = "copy"
        elif session.stage == "copy":
            return self._copy(session, source, target)
        return session.stage != "over"

    def may_open(self, plan: EdgePlan) -> bool:
        """Read the plan from the control plane, as a session does once it has fenced the task's former holder."""
        state = self.leaves[plan.target.name]
        holds = state.wanted == state.entered == plan.routes_version
        return holds and self.plans.get(plan.task) == plan

    def _take_up(self, session: Session, source: Cluster, target: Cluster) -> None:
        plan = session.plan
        held = {
            group: Position(offset, marks.decode_metadata(metadata))
            for group, (offset, metadata) in target.committed.items()
            if group in plan.inbound_groups
        }
        inbound: list[Mark] = [position.mark for position in held.values()]
        taken = find_resume_point(
            plan,
            plan.streams[0],
            0,
            own=held.get(plan.task.kafka_name),
            inbound=inbound,
            checkpoints=source.checkpoints,
            foreign=lambda number: number not in self.known,
        )
        session.position, session.edge = taken.offset or 0, taken.edge

    def _copy(self, session: Session, source: Cluster, target: Cluster) -> bool:
        """Copy one transaction of up to five records; it is lost if the session is fenced."""
        assert session.edge is not None
        records = source.log[session.position : session.position + self.random.randint(1, 5)]
        copies = []
        try:
            for offset, (value, headers) in enumerate(records, session.position):
                copied = session.edge.copy(offset, headers)
                if copied is not None:
                    copies.append((value, copied))
        except UnknownOrigin:
            session.stage = "over"
            return False
        if target.epochs[session.plan.task.kafka_name] != session.epoch:
            session.stage = "over"
            return False
        session.position += len(records)
        target.log.extend(copies)
        target.committed[session.plan.task.kafka_name] = (
            session.position,
            session.edge.metadata(session.position),
        )
        if self.random.random() < 0.3:
            mark = session.edge.mark(session.position)
            source.checkpoints.append(Checkpoint(session.position, mark.incarnation, dict(mark.seen)))
        return bool(records)

    # --- the applications

    def bear(self, cluster: str) -> None:
        """An application writes a record, with or without headers of its own."""
        others = [("h", b"x")] if self.random.random() < 0.5 else []
        self._write(cluster, others)

    def process(self, cluster: str) -> None:
        """A stream processor reads a record where it stands and writes its result with the record's headers."""
        log = self.clusters[cluster].log
        if log:
            self._write(cluster, list(self.random.choice(log)[1]))

    def _write(self, cluster: str, headers: list) -> None:
        self.clusters[cluster].log.append((f"{cluster}:{self.births}", headers))
        self.births += 1
