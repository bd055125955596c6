"""Trees: what is refused and where, default targets, routes, coverage, and the event stream."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from backend.domain.base.errors import NotFound, TargetNotAllowed, TreeInvalid, ValueInvalid
from backend.domain.records import copy_flags
from backend.domain.tree import routes, tree, tree_shape
from backend.domain.tree.tree import ReplaceTree, SwitchTarget
from tests.support.domain.trees import BALANCED, UNBALANCED, parsed, random_targets, random_tree, seeds

KNOWN = frozenset("12345")


def leaf(name):
    return {"cluster": name}


def inner(level, *children):
    return {"level": level, "children": list(children)}


REFUSED = {
    "one child": (inner(2, leaf("1")), "/children"),
    "three children": (inner(2, leaf("1"), leaf("2"), leaf("3")), "/children"),
    "no children": ({"level": 2}, "/children"),
    "cluster twice": (inner(2, leaf("1"), leaf("1")), "/children/1/cluster"),
    "level not below its parent's": (inner(2, leaf("1"), inner(2, leaf("2"), leaf("3"))), "/children/1/level"),
    "level above its parent's": (inner(2, inner(3, leaf("2"), leaf("3")), leaf("1")), "/children/0/level"),
    "level 0": (inner(0, leaf("1"), leaf("2")), "/level"),
    "level 32": (inner(32, leaf("1"), leaf("2")), "/level"),
    "negative level": (inner(-1, leaf("1"), leaf("2")), "/level"),
    "level as text": (inner("3", leaf("1"), leaf("2")), "/level"),
    "level as truth": (inner(True, leaf("1"), leaf("2")), "/level"),
    "level as fraction": (inner(1.5, leaf("1"), leaf("2")), "/level"),
    "no level": ({"children": [leaf("1"), leaf("2")]}, "/level"),
    "unknown cluster": (inner(1, leaf("1"), leaf("nowhere")), "/children/1/cluster"),
    "cluster as number": (inner(1, leaf(1), leaf("2")), "/children/0/cluster"),
    "a list": ([1, 2], ""),
    "nothing": (None, ""),
    "a name": ("1", ""),
    "both kinds": ({"level": 1, "cluster": "1", "children": [leaf("1"), leaf("2")]}, ""),
    "unknown field": ({**inner(1, leaf("1"), leaf("2")), "name": "x"}, ""),
    "children not a list": ({"level": 1, "children": {"left": leaf("1")}}, "/children"),
}


@pytest.mark.parametrize(("document", "pointer"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_tree_is_refused_naming_the_place(document, pointer):
    with pytest.raises(TreeInvalid) as refused:
        tree_shape.parse(document, KNOWN)
    assert pointer in [error.pointer for error in refused.value.errors]
    assert all(error.detail for error in refused.value.errors)


def test_every_wrong_place_is_named_not_only_the_first():
    document = inner(9, leaf("x"), inner(9, leaf("y"), leaf("1")))
    with pytest.raises(TreeInvalid) as refused:
        tree_shape.parse(document, KNOWN)
    places = {error.pointer for error in refused.value.errors}
    assert places == {"/children/0/cluster", "/children/1/level", "/children/1/children/0/cluster"}


def test_a_very_deep_document_is_refused_not_followed():
    document = leaf("1")
    for level in range(1, 500):
        document = inner(level, document, leaf("2"))
    with pytest.raises(TreeInvalid):
        tree_shape.parse(document, KNOWN)


@given(seeds)
def test_a_tree_survives_its_document(seed):
    root = random_tree(random.Random(seed), 12)
    assert tree_shape.parse(tree_shape.document(root), frozenset(tree_shape.leaves(root))) == root


def test_a_leaf_has_one_distributor_for_each_level_above_it():
    levels = {}
    for cluster, level, _ in tree_shape.siblings(parsed(UNBALANCED)):
        levels.setdefault(cluster, set()).add(level)
    assert levels == {"1": {2, 3}, "2": {1, 2, 3}, "3": {1, 2, 3}, "4": {1, 3}, "5": {1, 3}}


def test_default_targets_are_the_contracts():
    targets = tree_shape.default_targets(parsed(UNBALANCED))
    level_3 = {cluster: target for (cluster, level), target in targets.items() if level == 3}
    assert level_3 == {"1": "4", "2": "5", "3": "4", "4": "1", "5": "2"}


def test_flags_of_the_source_documents_balanced_example():
    root = parsed(BALANCED)
    flags = routes.arrival_flags(root, tree_shape.default_targets(root), "1")
    shown = {cluster: copy_flags.text(value) for cluster, value in flags.items()}
    assert shown == {"1": "0000", "2": "0001", "3": "0100", "4": "0101"}


@given(seeds)
def test_any_tree_with_any_targets_brings_every_record_to_every_cluster_once(seed):
    source = random.Random(seed)
    root = random_tree(source, 14)
    names = tree_shape.leaves(root)
    proof = routes.coverage(root, random_targets(source, root))
    assert proof.proven
    assert proof.pairs == len(names) * (len(names) - 1)


@pytest.mark.parametrize(
    ("broken", "kind"),
    [({("1", 1): "1"}, "doubled"), ({("1", 3): "2"}, "missing")],
    ids=["a record that comes back", "a subtree that gets nothing"],
)
def test_coverage_finds_what_wrong_targets_would_do(broken, kind):
    root = parsed(BALANCED)
    proof = routes.coverage(root, {**tree_shape.default_targets(root), **broken})
    assert not proof.proven
    assert getattr(proof, kind)


# --- the event stream


def given_tree(document=UNBALANCED, *commands):
    state = tree.INITIAL
    for command in (ReplaceTree(root=document, known_clusters=KNOWN), *commands):
        for event in tree.decide(state, command):
            state = tree.evolve(state, event)
    return state


def test_the_first_leaf_is_the_primary_unless_one_is_named():
    assert given_tree().primary_cluster == "1"
    named = tree.decide(tree.INITIAL, ReplaceTree(root=UNBALANCED, known_clusters=KNOWN, primary_cluster="4"))
    assert named[0].primary_cluster == "4"


def test_a_primary_outside_the_tree_is_refused():
    with pytest.raises(ValueInvalid):
        tree.decide(tree.INITIAL, ReplaceTree(root=BALANCED, known_clusters=KNOWN, primary_cluster="5"))


def test_the_same_tree_again_changes_nothing():
    assert tree.decide(given_tree(), ReplaceTree(root=UNBALANCED, known_clusters=KNOWN)) == []


def test_a_target_moves_within_the_sibling_subtree():
    state = given_tree()
    (event,) = tree.decide(state, SwitchTarget(cluster="1", level=3, target="5"))
    assert (event.target, event.previous) == ("5", "4")
    assert tree.evolve(state, event).targets["1", 3] == "5"


def test_the_same_target_again_changes_nothing():
    assert tree.decide(given_tree(), SwitchTarget(cluster="1", level=3, target="4")) == []


@pytest.mark.parametrize("target", ["1", "2", "3", "nowhere", ""])
def test_a_target_outside_the_sibling_subtree_is_refused_with_the_allowed_leaves(target):
    with pytest.raises(TargetNotAllowed) as refused:
        tree.decide(given_tree(), SwitchTarget(cluster="1", level=3, target=target))
    assert "4 or 5" in refused.value.detail
    assert refused.value.errors[0].pointer == "/target"


@pytest.mark.parametrize(("cluster", "level"), [("1", 1), ("4", 2), ("9", 3), ("1", 0), ("1", 32)])
def test_an_unknown_distributor_is_not_found(cluster, level):
    with pytest.raises(NotFound):
        tree.decide(given_tree(), SwitchTarget(cluster=cluster, level=level, target="4"))


def test_targets_chosen_by_the_operator_survive_a_new_tree_where_still_allowed():
    chosen = given_tree(UNBALANCED, SwitchTarget(cluster="1", level=3, target="5"))
    grown = inner(4, inner(3, *UNBALANCED["children"]), leaf("6"))
    for event in tree.decide(chosen, ReplaceTree(root=grown, known_clusters=KNOWN | {"6"})):
        chosen = tree.evolve(chosen, event)
    assert chosen.targets["1", 3] == "5"
    shrunk = inner(3, UNBALANCED["children"][0], leaf("4"))
    for event in tree.decide(chosen, ReplaceTree(root=shrunk, known_clusters=KNOWN)):
        chosen = tree.evolve(chosen, event)
    assert chosen.targets["1", 3] == "4"
