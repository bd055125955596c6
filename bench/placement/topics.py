"""Benchmark of the distribution of topics over brokers, with and without exchanges (docs/decisions/0042).

The clusters have topics of very unequal sizes, each placed separately as Kafka does it, from a random broker; then
brokers join or leave. Printed are moves, the largest difference between two brokers of a rack in replicas of one
topic, and the sum of such differences over all topics and racks.
"""

from __future__ import annotations

import sys

import numpy as np

from backend.placement.initial import initial
from backend.placement.leaders import choose_leaders
from backend.placement.partition_placement import place
from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.request_document import read_brokers
from backend.placement.topic_exchange import exchanged, exchanges, rows_of
from backend.placement.verify import count

FACTOR = 3
CASES = ((3, 6, 1, 900), (12, 15, 3, 9_000), (12, 15, 1, 9_000), (300, 330, 3, 100_000), (300, 330, 6, 100_000))
"""Numbers of brokers before and after, racks, and replicas."""
LEAVING = ((300, 285, 6, 100_000),)


def problem(before: int, after: int, racks: int, replicas: int) -> Problem:
    """Build the problem after all topics were created and brokers have joined, or are to leave."""
    rng = np.random.default_rng(4)
    rows = [
        {"id": at + 1, **({"rack": f"az{at % racks}"} if racks > 1 else {})} for at in range(max(before, after))
    ]
    sizes = np.minimum((rng.pareto(1.0, replicas) * 4 + 1).astype(np.int64), replicas // FACTOR // 8 + 1)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), replicas // FACTOR)) + 1]
    old, listed = read_brokers(rows[:before]), []
    for size in sizes.tolist():
        shift = int(rng.integers(before))
        placed = initial(old, size, FACTOR).brokers.reshape(-1, FACTOR)
        # Start at another broker of the same rack each time: shift by whole rounds of racks.
        listed += ((placed + shift // racks * racks) % before).tolist() if before % racks == 0 else placed.tolist()
    brokers, total = read_brokers(rows), len(listed)
    holds = np.arange(len(rows)) < after if after < before else np.ones(len(rows), bool)
    return Problem(
        **{name: getattr(brokers, name) for name in ("broker_ids", "rack_of", "racks")},
        may_hold=holds,
        may_lead=holds,
        topics=tuple(f"t{at:05}" for at in range(len(sizes))),
        topic_of=np.repeat(np.arange(len(sizes)), sizes),
        numbers=np.concatenate([np.arange(size) for size in sizes]),
        now=Replicas.listed(listed),
        wanted=np.full(total, FACTOR, np.int64),
        size_bytes=rng.integers(0, 10**9, total),
        is_fixed=np.zeros(total, bool),
    )


def differences(asked: Problem, replicas: Replicas) -> Ints:
    """Return by topic and rack the difference between the brokers with most and fewest replicas."""
    total, topics = len(asked.broker_ids), len(asked.topics)
    at = asked.topic_of[replicas.owners] * total + replicas.brokers
    has = np.bincount(at, minlength=topics * total).reshape(topics, total)
    found = []
    for rack in range(len(asked.racks)):
        mine = has[:, (asked.rack_of == rack) & asked.may_hold]
        found.append(mine.max(axis=1) - mine.min(axis=1))
    return np.stack(found, axis=1)


def main() -> int:
    """Print a table; return exit code 1 if exchanges cost moves, balance or leaders."""
    print(
        "| brokers, racks, replicas | moves | largest: without, with | sum: without, with "
        "| GB moved: without, with |\n|---|---:|---:|---:|---:|"
    )
    good = True
    for before, after, racks, replicas in (*CASES, *LEAVING):
        asked = problem(before, after, racks, replicas)
        placed = place(asked)
        leaders, every = choose_leaders(placed.problem, placed.replicas), np.arange(len(asked.now))
        by = exchanges(rows_of(placed.problem, every, placed.replicas, leaders))
        spread, led = exchanged(placed.problem, every, placed.replicas, leaders, by)
        apart = [differences(asked, each) for each in (placed.replicas, spread)]
        counted = [count(asked, each) for each in (placed.replicas, spread)]
        good &= counted[0].moves == counted[1].moves and bool((counted[0].loads == counted[1].loads).all())
        good &= bool((np.bincount(leaders) == np.bincount(led)).all())
        print(
            f"| {before} to {after}, {racks}, {len(asked.now.brokers):,} | {counted[0].moves:,} "
            f"| {apart[0].max()}, {apart[1].max()} | {apart[0].sum():,}, {apart[1].sum():,} "
            f"| {counted[0].moved_bytes / 1e9:,.0f}, {counted[1].moved_bytes / 1e9:,.0f} |"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
