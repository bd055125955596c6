"""A tree that stands as it is, while distributors crash and zombies go on: flags are what the path implies.

The real decision code over random trees and logs in memory (see `world.py`). A failure names its seed;
`check(seed)` replays it.
"""

from __future__ import annotations

import random

import pytest

from backend.domain.records import copy_flags
from backend.domain.tree import routes
from tests.nightly import some_now
from tests.support.domain.trees import random_targets, random_tree
from tests.unit.simulation.test_changes import act, heal
from tests.unit.simulation.world import World

SEEDS, NIGHTLY_SEEDS = 800, 20_000


def check(seed):
    source = random.Random(seed)
    root = random_tree(source, 7)
    world = World(seed, root, random_targets(source, root))
    for _ in range(200):
        act(world, world.random.choice(["bear", "open", "session", "session", "session", "barrier", "forget"]))
    heal(world)
    born = {name: [v for v, _ in one.log if v.startswith(f"{name}:")] for name, one in world.clusters.items()}
    flags = {name: routes.arrival_flags(world.root, world.targets, name) for name in world.names}
    for cluster, one in world.clusters.items():
        values = [value for value, _ in one.log]
        assert len(values) == len(set(values)), f"seed {seed}: doubled on {cluster}"
        assert set(values) == set().union(*map(set, born.values())), f"seed {seed}: missing on {cluster}"
        for home, sequence in born.items():
            arrived = [value for value in values if value.startswith(f"{home}:")]
            assert arrived == sequence, f"seed {seed}: {home}'s records out of order on {cluster}"
        for value, headers in one.log:
            carried = [copy_flags.decode([v])[0] for name, v in headers if name == "copy-flags"] or [0]
            assert carried == [flags[value.split(":")[0]][cluster]], f"seed {seed}: flags of {value} on {cluster}"


@some_now("block", range(8), now=range(4))
def test_every_record_is_everywhere_once_in_order_with_the_trees_flags(block):
    for seed in range(block, SEEDS, 8):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(8))
def test_the_same_for_many_more_seeds(block):
    for seed in range(SEEDS + block, NIGHTLY_SEEDS, 8):
        check(seed)
