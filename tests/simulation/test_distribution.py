"""The real decision code over random trees: logs in memory, distributors that crash and start again.

Every cluster's log is a list; every distributor reads it with `PartitionEdge`, commits its position with its
vectors as the target's transaction does, and may lose at any moment whatever it did since. A failure names its
seed; `check(seed)` replays it.
"""

from __future__ import annotations

import random

import pytest

from backend.domain import copy_flags, edges, origin, routes, tree_shape
from backend.domain.assignment import Unit
from backend.domain.edges import DistributedStream, Endpoint, HeaderNames
from backend.domain.origin import Mark, PartitionEdge
from tests.trees import random_targets, random_tree

SEEDS, NIGHTLY_SEEDS = 400, 20_000
STREAM = "acme/retail/prod/orders"
HEADERS = HeaderNames(flags="copy-flags", origin="copy-origin", write_origin=True)


class World:
    """Clusters, their logs of (value, headers), and what each target holds of each distributor's position."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = random_tree(self.random, 7)
        self.targets = random_targets(self.random, self.root)
        self.names = tree_shape.leaves(self.root)
        self.logs = {name: [] for name in self.names}
        self.committed = {name: {} for name in self.names}
        endpoints = {
            name: Endpoint(name=name, number=int(name), bootstrap_servers="", properties={}) for name in self.names
        }
        stream = DistributedStream(
            stream=STREAM,
            partitions=1,
            technical_names=dict.fromkeys(self.names, "t"),
            incarnations=dict.fromkeys(self.names, 1),
        )
        self.plans = edges.plans(self.root, self.targets, endpoints, [stream], 1, HEADERS)
        self.running = {}
        self.births = 0

    def step(self) -> None:
        """One thing happens somewhere: a birth, a batch of copies, or a crash."""
        kind = self.random.random()
        if kind < 0.3:
            self.bear()
        else:
            unit = self.random.choice(sorted(self.plans))
            if kind < 0.4:
                self.running.pop(unit, None)  # whatever it knew in memory is gone
            else:
                self.batch(unit, crash=kind < 0.5)

    def bear(self) -> None:
        cluster = self.random.choice(self.names)
        others = [("h", b"x")] if self.random.random() < 0.5 else []
        self.logs[cluster].append((f"{cluster}:{self.births}", others))
        self.births += 1

    def batch(self, unit: Unit, *, crash: bool) -> int:
        """Read up to five records; with a crash the transaction is lost, copies and position together."""
        plan = self.plans[unit]
        if unit not in self.running:
            held = self.committed[plan.target.name]
            position, mark = self.position(held, unit.kafka_name)
            covered = origin.merge(
                self.position(held, group)[1].passed for group in plan.inbound_groups if group in held
            )
            edge = PartitionEdge(
                plan.rule,
                stream=origin.stream_id(STREAM),
                partition=0,
                incarnation=1,
                seen=mark.seen,
                passed=mark.passed,
                covered=covered,
            )
            self.running[unit] = [position, edge]
        position, edge = self.running[unit]
        records = self.logs[plan.source.name][position : position + self.random.randint(1, 5)]
        copies = []
        for offset, (value, headers) in enumerate(records, position):
            copied = edge.copy(offset, headers)
            if copied is not None:
                copies.append((value, copied))
        if crash:
            del self.running[unit]
            return len(records)
        self.logs[plan.target.name].extend(copies)
        position += len(records)
        self.running[unit][0] = position
        self.committed[plan.target.name][unit.kafka_name] = (position, edge.metadata())
        return len(records)

    @staticmethod
    def position(held: dict, group: str) -> tuple[int, Mark]:
        """What a target holds of one distributor."""
        if group not in held:
            return 0, Mark(1, {}, {})
        position, metadata = held[group]
        return position, origin.decode_metadata(metadata)

    def drain(self) -> None:
        moved = 1
        while moved:
            moved = sum(self.batch(unit, crash=False) for unit in sorted(self.plans))


def check(seed):
    world = World(seed)
    for _ in range(120):
        world.step()
    world.drain()
    born = {name: [v for v, _ in log if v.startswith(f"{name}:")] for name, log in world.logs.items()}
    flags = {name: routes.arrival_flags(world.root, world.targets, name) for name in world.names}
    for cluster, log in world.logs.items():
        values = [value for value, _ in log]
        assert len(values) == len(set(values)), f"seed {seed}: doubled on {cluster}"
        assert set(values) == set().union(*map(set, born.values())), f"seed {seed}: missing on {cluster}"
        for home, sequence in born.items():
            arrived = [value for value in values if value.startswith(f"{home}:")]
            assert arrived == sequence, f"seed {seed}: {home}'s records out of order on {cluster}"
        for value, headers in log:
            carried = [copy_flags.decode([v])[0] for name, v in headers if name == "copy-flags"] or [0]
            assert carried == [flags[value.split(":")[0]][cluster]], f"seed {seed}: flags of {value} on {cluster}"


@pytest.mark.parametrize("block", range(8))
def test_every_record_is_everywhere_once_in_order_with_the_trees_flags(block):
    for seed in range(block, SEEDS, 8):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(8))
def test_the_same_for_many_more_seeds(block):
    for seed in range(SEEDS + block, NIGHTLY_SEEDS, 8):
        check(seed)
