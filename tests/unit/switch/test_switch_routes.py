"""New targets of a switch, and ways through the tree, on any tree."""

from __future__ import annotations

import random

from hypothesis import given

from backend.domain.switch.cluster_switch import Retarget
from backend.domain.switch.switch_routes import restored, retargets
from backend.domain.tree import routes, tree_shape
from tests.support.domain.trees import random_targets, random_tree, seeds


@given(seeds)
def test_new_targets_are_allowed_and_every_cluster_still_gets_all_once(seed: int) -> None:
    source = random.Random(seed)
    root = random_tree(source, 9)
    targets = random_targets(source, root)
    leaves = tree_shape.leaves(root)
    leaving = source.choice(leaves)
    online = {leaf for leaf in leaves if source.random() < 0.8}
    moved, kept = retargets(root, targets, leaving, online.__contains__)
    allowed = {(cluster, level): names for cluster, level, names in tree_shape.siblings(root)}
    for each in moved:
        assert each.target in set(allowed[each.cluster, each.level]) & online - {leaving}
    for stays in kept:
        assert not set(allowed[stays.cluster, stays.level]) & online - {leaving}
    after = targets | {(each.cluster, each.level): each.target for each in moved}
    assert {key for key, to in after.items() if to == leaving} == {(each.cluster, each.level) for each in kept}
    assert routes.coverage(root, after).proven


def test_what_a_switch_has_changed_goes_back_but_for_what_somebody_has_changed_since() -> None:
    changed = tuple(Retarget(cluster=name, level=3, target="4", previous="3") for name in ("1", "2"))
    back = restored({("1", 3): "4", ("2", 3): "5"}, changed)
    assert back == (Retarget(cluster="1", level=3, target="3", previous="4"),)


@given(seeds)
def test_a_way_leads_from_origin_to_target_and_nowhere_else(seed: int) -> None:
    source = random.Random(seed)
    root = random_tree(source, 9)
    targets = random_targets(source, root)
    origin, to = source.sample(tree_shape.leaves(root), 2)
    edges = routes.way(routes.routes(root, targets)[origin], origin, to)
    assert [edges[0].source, *(edge.target for edge in edges)] == [*(edge.source for edge in edges), to]
    assert edges[0].source == origin
