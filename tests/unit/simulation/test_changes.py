"""Targets switched, trees replaced, leaves lost and returned while records flow: nothing lost, nothing doubled.

Thousands of random stories over the real decision code (see `world.py`). A failure names its seed; `check(seed)`
replays it.
"""

from __future__ import annotations

import random

import pytest

from backend.domain.tree import tree_shape
from backend.domain.tree.tree_shape import Inner, Leaf
from tests.nightly import some_now
from tests.support.domain.trees import random_targets, random_tree
from tests.unit.simulation.world import Session, World

SEEDS, NIGHTLY_SEEDS = 1_200, 20_000
STEPS = 250


def tree_of(source, names):
    """Draw any legal tree of these clusters."""

    def grow(left, highest):
        if len(left) == 1:
            return Leaf(left[0])
        level = source.randint(min(len(left) - 1, highest), highest)
        cut = source.randint(1, len(left) - 1)
        return Inner(level, grow(left[:cut], level - 1), grow(left[cut:], level - 1))

    shuffled = list(names)
    source.shuffle(shuffled)
    return grow(shuffled, 31)


def story(seed):
    world = World(seed, *first_tree(random.Random(seed)), spare=2)
    actions = {
        "bear": 30,
        "process": 4,
        "open": 14,
        "session": 60,
        "forget": 6,
        "barrier": 12,
        "reroot": 4,
        "switch": 3,
        "replace": 2,
        "down": 2,
        "up": 4,
    }
    names, weights = list(actions), list(actions.values())
    for _ in range(STEPS):
        act(world, world.random.choices(names, weights)[0])
    heal(world)
    return world


def first_tree(source):
    root = random_tree(source, 6)
    return root, random_targets(source, root)


def act(world, action):
    choose = world.random.choice
    everyone = sorted(world.clusters)
    match action:
        case "bear" | "process":
            cluster = choose(everyone)
            if world.clusters[cluster].up:
                getattr(world, action)(cluster)
        case "open":
            world.sessions.append(Session(world.plans[choose(sorted(world.plans))]))
        case "session" if world.sessions:
            world.session_step(choose(world.sessions))
        case "forget" if world.sessions:
            world.sessions.remove(choose(world.sessions))
        case "barrier":
            world.barrier_step(choose(world.names))
        case "reroot":
            world.reroot_step()
        case "switch":
            cluster, level, allowed = choose(list(tree_shape.siblings(world.root)))
            world.set_tree(world.root, {**world.targets, (cluster, level): choose(allowed)})
        case "replace":
            leaves = world.random.sample(everyone, world.random.randint(2, len(everyone)))
            root = tree_of(world.random, leaves)
            world.set_tree(root, random_targets(world.random, root))
        case "down":
            world.clusters[choose(everyone)].up = False
        case "up":
            world.clusters[choose(everyone)].up = True


def heal(world):
    """Bring everything up, let every zombie have its last try, and run tasks until nothing moves."""
    for cluster in world.clusters.values():
        cluster.up = True
    moved = True
    rounds = 0
    while moved:
        rounds += 1
        assert rounds < 1000, "it never comes to rest"
        moved = sum(world.barrier_step(leaf) for leaf in world.names) > 0
        moved = world.reroot_step() or moved
        for session in world.sessions:
            world.session_step(session)
        world.sessions = [session for session in world.sessions if session.stage != "over"]
        for task in sorted(world.plans):
            session = Session(world.plans[task])
            for _ in range(3):
                world.session_step(session)
            while session.stage == "copy" and world.session_step(session):
                moved = True


def check(seed):
    world = story(seed)
    logs = {name: [value for value, _ in world.clusters[name].log] for name in world.names}
    born = {name: [v for v, _ in one.log if v.startswith(f"{name}:")] for name, one in world.clusters.items()}
    everything = set().union(*map(set, logs.values()))
    for cluster, values in logs.items():
        doubled = sorted({value for value in values if values.count(value) > 1})
        assert not doubled, f"seed {seed}: doubled on {cluster}: {doubled}"
        missing = sorted(everything - set(values))
        assert not missing, f"seed {seed}: missing on {cluster}: {missing}"
        for home, sequence in born.items():
            arrived = [value for value in values if value.startswith(f"{home}:")]
            assert arrived == sequence[: len(arrived)], f"seed {seed}: {home}'s out of order on {cluster}"


@some_now("block", range(8), now=range(2))
def test_nothing_is_lost_or_doubled_whatever_changes(block):
    for seed in range(block, SEEDS, 8):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(8))
def test_the_same_for_many_more_stories(block):
    for seed in range(SEEDS + block, NIGHTLY_SEEDS, 8):
        check(seed)
