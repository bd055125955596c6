"""Routes change while records flow: nothing is lost, duplicated or reordered, whichever cluster is down."""

from __future__ import annotations

from random import Random

import pytest

from tests.eventually import eventually
from tests.faults.changes import lose_a_leaf, random_tree, replace_the_tree, switch_a_target, without
from tests.faults.runs import CLUSTERS, Run, passed


@pytest.mark.nightly  # trees that are replaced change all targets at once
def test_targets_are_switched_one_after_the_other(place):
    with Run(place) as run:
        rng = Random(run.seed)
        for _ in range(6):
            run.flow(rng.uniform(0, 2))
            run.tell(switch_a_target(place, rng)[0])
    passed(run)


@pytest.mark.nightly
def test_trees_are_replaced_while_leaves_go_and_come(place):
    with Run(place) as run:
        rng = Random(run.seed)
        for _ in range(3):
            run.flow(rng.uniform(0.5, 2))
            words, undo = replace_the_tree(place, rng)
            run.tell(words)
            run.flow(rng.uniform(0, 3))
            undo()
    passed(run)


@pytest.mark.nightly
def test_the_target_dies_with_what_it_had_not_passed_on_and_returns(place):
    """Check that records which had reached the target arrive on the others from another leaf."""
    with Run(place) as run:
        run.flow(1)
        row = next(row for row in place.distributors() if row["cluster"] == "cluster-1" and row["level"] == 3)
        dead = row["target"]
        other = next(name for name in row["allowed_targets"] if name != dead)
        # Records that it gets from cluster-1's side stay on it.
        place.pause(dead, 1)
        run.flow(2)
        place.link("refuse", dead)
        eventually(lambda: dead in place.reader.offline(), f"{dead} is known to be away")
        for distributor in place.distributors():
            if distributor["target"] == dead and len(distributor["allowed_targets"]) > 1:
                place.switch_target(distributor["cluster"], distributor["level"], other)
        run.flow(3)
        place.link("heal", dead)
        place.resume(dead, 1)
        run.flow(1)
    passed(run)


@pytest.mark.nightly
def test_a_leaf_is_lost_for_good_and_a_late_return_doubles_nothing(place):
    """Check that records which had reached some leaf arrive on all, from the leaf that has most of them."""
    with Run(place) as run:
        run.flow(2)
        words, undo = lose_a_leaf(place, Random(run.seed))
        run.tell(words)
        run.flow(4)
        place.replace_tree(random_tree(Random(run.seed), sorted(place.leaves())))
        run.flow(2)
        undo()
        run.flow(1)
    passed(run)


def test_trees_of_this_test_are_trees():
    for seed in range(200):
        rng = Random(seed)
        tree = random_tree(rng, CLUSTERS)
        lost = rng.choice(CLUSTERS)
        assert _leaves(tree) == set(CLUSTERS)
        assert _leaves(without(tree, lost)) == set(CLUSTERS) - {lost}


def _leaves(tree):
    return {tree["cluster"]} if "cluster" in tree else set().union(*map(_leaves, tree["children"]))
