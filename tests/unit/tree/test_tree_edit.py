"""Steps of an edit: what each makes of a tree, and which do not fit."""

from __future__ import annotations

import random

import pytest

from backend.domain.base.errors import TreeInvalid, ValueInvalid
from backend.domain.tree.routes import coverage
from backend.domain.tree.tree_edit import Draft, Step, edited, place_of, read_steps, walk, write_steps
from backend.domain.tree.tree_shape import default_targets, parse

C = {name: {"cluster": name} for name in ("c1", "c2", "c3", "c4", "c5")}


def inner(level: int, left: dict, right: dict) -> dict:
    return {"level": level, "children": [left, right]}


PAIR = inner(4, C["c1"], C["c2"])
TREE = inner(3, C["c1"], inner(1, C["c2"], C["c3"]))


@pytest.mark.parametrize(
    ("steps", "before", "after"),
    [
        ("begin:r:c1", None, C["c1"]),
        ("begin:r:c1,add:r:c2", None, PAIR),
        (
            "begin:r:c1,add:r:c2,add:r1:c3,add:r11:c4",
            None,
            inner(4, C["c1"], inner(3, C["c2"], inner(2, C["c3"], C["c4"]))),
        ),
        ("add:r0:c4", TREE, inner(3, inner(2, C["c1"], C["c4"]), inner(1, C["c2"], C["c3"]))),
        ("add:r1:c4", TREE, inner(3, C["c1"], inner(2, inner(1, C["c2"], C["c3"]), C["c4"]))),
        ("add:r:c4", TREE, inner(4, TREE, C["c4"])),
        ("remove:r0", TREE, inner(1, C["c2"], C["c3"])),
        ("remove:r10", TREE, inner(3, C["c1"], C["c3"])),
        ("remove:r1", TREE, C["c1"]),
        ("swap:r", TREE, inner(3, inner(1, C["c2"], C["c3"]), C["c1"])),
        ("level:r1:2", TREE, inner(3, C["c1"], inner(2, C["c2"], C["c3"]))),
        ("put:r0:c5", TREE, inner(3, C["c5"], inner(1, C["c2"], C["c3"]))),
        ("put:r0:c3", TREE, inner(3, C["c3"], inner(1, C["c2"], C["c1"]))),
        ("move:r0:r10", TREE, inner(1, inner(1, C["c2"], C["c1"]), C["c3"])),
        ("move:r11:r0", TREE, inner(3, inner(2, C["c1"], C["c3"]), C["c2"])),
        ("move:r10:r1", TREE, inner(3, C["c1"], inner(2, C["c3"], C["c2"]))),
        ("add:r10:c4", TREE, inner(3, C["c1"], inner(1, inner(1, C["c2"], C["c4"]), C["c3"]))),
        ("add:r10:c4,room:r10", TREE, inner(3, C["c1"], inner(2, inner(1, C["c2"], C["c4"]), C["c3"]))),
        ("level:r:1,room:r1", TREE, inner(2, C["c1"], inner(1, C["c2"], C["c3"]))),
    ],
)
def test_each_step_makes_this_of_a_tree(steps: str, before: dict | None, after: dict) -> None:
    found = edited(Draft(before), read_steps(steps), 5)
    assert found.root == after
    assert before in (None, TREE), "what there was is not written over"


def test_a_primary_is_chosen() -> None:
    assert edited(Draft(TREE), read_steps("primary:r:c2"), 5).primary == "c2"


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("add:r00:c4", r"step 1 \(add:r00:c4\) does not fit: there is no node r00"),
        ("swap:r,swap:r1", r"step 2 \(swap:r1\) does not fit: a cluster has no level"),
        ("remove:r", "nothing would be left"),
        ("move:r1:r10", "beside itself, or what is below it"),
        ("put:r:c4", "an inner node is no cluster"),
        ("begin:r:c4", "there is a tree already"),
        ("level:r:high", "a level is a whole number"),
        ("fell:r", "'fell:r' is no step of an edit"),
        ("swap:r:c1", "is no step of an edit"),
        ("add:r", "is no step of an edit"),
        ("swap:0", "is no step of an edit"),
        (",".join(["swap:r"] * 301), "at most 300 steps"),
    ],
)
def test_what_does_not_fit_is_told(steps: str, told: str) -> None:
    with pytest.raises(ValueInvalid, match=told):
        edited(Draft(TREE), read_steps(steps), 5)


def test_without_a_tree_there_is_nothing_to_edit() -> None:
    with pytest.raises(ValueInvalid, match="there is no tree yet"):
        edited(Draft(None), read_steps("swap:r"), 5)


def test_steps_are_read_as_they_are_written() -> None:
    text = "begin:r:c1,add:r:c2,level:r:-3,swap:r,move:r0:r1"
    assert write_steps(read_steps(text)) == text
    assert read_steps("") == ()
    assert str(Step("swap", "r")) == "swap:r"


def test_an_error_stands_at_its_node() -> None:
    assert place_of("/children/1/children/0/level") == "r10"
    assert place_of("/cluster") == "r" and place_of("") == "r"


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_done_a_tree_that_is_accepted_is_proven(seed: int) -> None:
    """Random edits, with room made where a level is refused, end in a tree in which everybody gets everything."""
    dice = random.Random(seed)
    names = [f"c{n}" for n in range(1, 9)]
    draft = edited(Draft(None), read_steps(f"begin:r:{names[0]}"), len(names))
    for _ in range(dice.randrange(1, 25)):
        assert draft.root is not None
        places = [place for place, _ in walk(draft.root)]
        inside = {each["cluster"] for _, each in walk(draft.root) if "cluster" in each}
        free = [name for name in names if name not in inside]
        place, kind = dice.choice(places), dice.choice(["add", "add", "add", "move", "remove", "swap"])
        step = {"add": f"add:{place}:{dice.choice(free or names)}", "move": f"move:{place}:{dice.choice(places)}"}
        if kind == "add" and not free:
            continue
        try:
            draft = edited(draft, read_steps(step.get(kind, f"{kind}:{place}")), len(names))
        except ValueInvalid:
            continue
    assert draft.root is not None
    for _ in range(40):
        try:
            root = parse(draft.root, names)
        except TreeInvalid as error:
            wrong = place_of(error.errors[0].pointer)
            draft = edited(draft, read_steps(f"room:{wrong}"), len(names))
            continue
        proof = coverage(root, default_targets(root))
        leaves = sum("cluster" in each for _, each in walk(draft.root))
        assert proof.proven and proof.pairs == leaves * (leaves - 1)
        return
    raise AssertionError("room could not be made")
