"""The primary is moved by an order and a record of its being done; one overtakes the other without harm."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import NotFound, ValueInvalid
from backend.domain.tree import tree
from backend.domain.tree.primary_move import (
    Move,
    MovePrimary,
    PrimaryMoveBegun,
    PrimaryMoveCancelled,
    PrimaryMoved,
    RecordPrimaryMoved,
)

PAIR = {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
OTHER = {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}
SET = tree.ReplaceTree(root=PAIR, known_clusters=frozenset({"c1", "c2", "c3"}), primary_cluster="c1")
BEGIN = MovePrimary(cluster="c2")
TAKE_OVER = MovePrimary(cluster="c2", take_over=True)
CANCEL = MovePrimary(cluster="c1")
DONE = RecordPrimaryMoved(cluster="c2", previous="c1")


def after(*commands: tree.TreeCommand) -> tuple[tree.Tree, list[tree.TreeEvent]]:
    """The state, and the events of the last command."""
    state, events = tree.INITIAL, []
    for command in commands:
        events = tree.decide(state, command)
        for event in events:
            state = tree.evolve(state, event)
    return state, events


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ((SET, BEGIN), [PrimaryMoveBegun(cluster="c2", previous="c1", take_over=False)]),
        ((SET, BEGIN, BEGIN), []),
        ((SET, BEGIN, TAKE_OVER), [PrimaryMoveBegun(cluster="c2", previous="c1", take_over=True)]),
        ((SET, BEGIN, DONE), [PrimaryMoved(cluster="c2", previous="c1", skipped_ids=0)]),
        ((SET, BEGIN, CANCEL), [PrimaryMoveCancelled(cluster="c1")]),
        ((SET, BEGIN, CANCEL, DONE), []),
        ((SET, BEGIN, DONE, DONE), []),
        ((SET, CANCEL), []),
        ((SET, DONE), []),
    ],
)
def test_what_a_command_comes_to(commands: tuple[tree.TreeCommand, ...], expected: list[tree.TreeEvent]) -> None:
    assert after(*commands)[1] == expected


def test_the_present_primary_writes_on_until_the_move_is_done() -> None:
    state, _ = after(SET, BEGIN)
    assert (state.primary_cluster, state.move) == ("c1", Move(cluster="c2", take_over=False))
    state, _ = after(SET, BEGIN, DONE)
    assert (state.primary_cluster, state.move) == ("c2", None)


def test_only_a_leaf_can_be_the_primary() -> None:
    with pytest.raises(ValueInvalid, match="not a leaf"):
        after(SET, MovePrimary(cluster="c3"))
    with pytest.raises(NotFound):
        after(BEGIN)


def test_a_tree_that_is_set_again_does_not_move_a_primary_that_stays() -> None:
    known = SET.known_clusters
    with pytest.raises(ValueInvalid, match="PUT /trees/main/primary"):
        after(SET, tree.ReplaceTree(root=PAIR, known_clusters=known, primary_cluster="c2"))
    state, _ = after(SET, tree.ReplaceTree(root=OTHER, known_clusters=known, primary_cluster="c2"))
    assert state.primary_cluster == "c2"


@pytest.mark.parametrize(("cluster", "kept"), [("c2", True), ("c1", False)])
def test_a_move_ends_with_the_leaf_that_it_was_to(cluster: str, kept: bool) -> None:
    begin = tree.ReplaceTree(root=PAIR, known_clusters=SET.known_clusters, primary_cluster="c2")
    first = SET if cluster == "c2" else begin
    other = {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c3"}]}
    primary = None if cluster == "c1" else "c3"
    again = tree.ReplaceTree(root=other, known_clusters=SET.known_clusters, primary_cluster=primary)
    state, _ = after(first, MovePrimary(cluster=cluster), again)
    assert (state.move is not None) is kept
