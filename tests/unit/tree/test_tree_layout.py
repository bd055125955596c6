"""Places of the diagram: nothing overlaps, whatever the tree."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.domain.tree import tree_shape
from backend.domain.tree.tree import clusters_of
from backend.domain.tree.tree_shape import Inner, Leaf, Node
from backend.settings import PROJECT_ROOT
from backend.web.tree.tree_layout import BAND_LABEL_WIDTH, PORT_PITCH, Box, Diagram, layout

ESTATES = sorted((PROJECT_ROOT / "estates").glob("*.yaml"))


@st.composite
def trees(draw: st.DrawFn, most_leaves: int = 16) -> tuple[Node, dict[tuple[str, int], str]]:
    """Draw a tree of any shape, and any targets that it allows."""

    def node(names: list[str], highest: int) -> Node:
        if len(names) == 1:
            return Leaf(names[0])
        level = draw(st.integers(len(names) - 1, highest))
        cut = draw(st.integers(1, len(names) - 1))
        return Inner(level, node(names[:cut], level - 1), node(names[cut:], level - 1))

    root = node([f"c{n}" for n in range(draw(st.integers(2, most_leaves)))], 31)
    targets = {
        (cluster, level): draw(st.sampled_from(allowed)) for cluster, level, allowed in tree_shape.siblings(root)
    }
    return root, targets


@pytest.mark.parametrize("file", ESTATES, ids=lambda file: file.stem)
@pytest.mark.parametrize("reason_lines", [0, 2])
def test_shipped_estates_are_drawn_clearly(file, reason_lines: int) -> None:
    document = yaml.safe_load(file.read_text())["tree"]
    root = tree_shape.parse(document, clusters_of(document))
    targets = tree_shape.default_targets(root)
    check(layout(root, targets, reason_lines), root, targets)


@settings(max_examples=150, deadline=None)
@given(trees(), st.integers(0, 2))
def test_any_tree_of_up_to_16_leaves_is_drawn_clearly(case, reason_lines: int) -> None:
    check(layout(*case, reason_lines), *case)


def test_the_five_clusters_need_ten_lanes_and_fit_a_page() -> None:
    document = yaml.safe_load((PROJECT_ROOT / "estates/unbalanced.yaml").read_text())["tree"]
    root = tree_shape.parse(document, clusters_of(document))
    drawn = layout(root, tree_shape.default_targets(root))
    assert [(leaf.cluster, leaf.box.top) for leaf in drawn.leaves] == [
        (f"cluster-{n}", drawn.leaves[0].box.top) for n in range(1, 6)
    ]
    assert sorted((node.level, node.leaves) for node in drawn.inner) == [
        (1, ("cluster-2", "cluster-3")),
        (1, ("cluster-4", "cluster-5")),
        (2, ("cluster-1", "cluster-2", "cluster-3")),
        (3, ("cluster-1", "cluster-2", "cluster-3", "cluster-4", "cluster-5")),
    ]
    assert len(drawn.arrows) == 12
    assert len({arrow.lane for arrow in drawn.arrows}) == 10
    assert [band.level for band in drawn.bands] == [1, 2, 3]
    assert drawn.width <= 960
    assert drawn.height <= 720


def check(drawn: Diagram, root: Node, targets: dict[tuple[str, int], str]) -> None:
    assert {(arrow.cluster, arrow.level): arrow.target for arrow in drawn.arrows} == targets
    assert tuple(leaf.cluster for leaf in drawn.leaves) == tree_shape.leaves(root)
    cards = {leaf.cluster: leaf.box for leaf in drawn.leaves}
    labels = [arrow.label for arrow in drawn.arrows]
    nodes = [*cards.values(), *(node.box for node in drawn.inner)]
    for boxes in (nodes, labels):
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert not [(label, card) for label in labels for card in nodes if label.overlaps(card)]
    whole = Box(0, 0, drawn.width, drawn.height)
    assert all(inside(box, whole) for box in [*nodes, *labels, *(band.box for band in drawn.bands)])
    check_lines(drawn, cards)
    check_branches(drawn)


def check_lines(drawn: Diagram, cards: dict[str, Box]) -> None:
    """Check that each line has its own ports and stretch of lane, and crosses no label."""
    ports = sorted(x for arrow in drawn.arrows for x in (arrow.start, arrow.end))
    assert all(right - left >= PORT_PITCH - 0.001 for left, right in pairwise(ports))
    assert ports[0] > BAND_LABEL_WIDTH
    for arrow in drawn.arrows:
        for x, cluster in ((arrow.start, arrow.cluster), (arrow.end, arrow.target)):
            assert cards[cluster].left < x < cards[cluster].right
            through = Box(x, arrow.top, 0.001, arrow.lane - arrow.top)
            assert not [other.key for other in drawn.arrows if through.overlaps(other.label)]
        low, high = sorted((arrow.start, arrow.end))
        assert low < arrow.label.left
        assert arrow.label.right < high, "the label is on its own line"
        band = next(band for band in drawn.bands if band.level == arrow.level)
        assert inside(arrow.label, band.box)
    for one, other in combinations(drawn.arrows, 2):
        if one.lane == other.lane:
            assert one.level == other.level
            assert max(one.start, one.end) < min(other.start, other.end) or max(other.start, other.end) < min(
                one.start, one.end
            )
        else:
            assert abs(one.lane - other.lane) >= one.label.height


def check_branches(drawn: Diagram) -> None:
    """Check that no branch runs behind a node, and that equal levels are in one row."""
    for branch in drawn.branches:
        parts = re.fullmatch(r"M(\S+) (\S+)H(\S+)q(\S+) 0 \S+ (\S+)V(\S+)", branch.path)
        assert parts
        left, top, turn_at, turn, drop, bottom = map(float, parts.groups())
        x, hair = turn_at + turn, 0.01  # paths are written with six digits
        along = Box(min(left, x) + hair, top, abs(left - x) - 2 * hair, hair)
        down = Box(x, top + drop, hair, bottom - top - drop - hair)
        assert not [node for node in drawn.inner if along.overlaps(node.box) or down.overlaps(node.box)]
        assert not [leaf for leaf in drawn.leaves if down.overlaps(leaf.box)]
    rows = {(node.level, node.box.top) for node in drawn.inner}
    assert len(rows) == len({level for level, _ in rows})


def inside(box: Box, outer: Box) -> bool:
    return (
        outer.left <= box.left and outer.top <= box.top and box.right <= outer.right and box.bottom <= outer.bottom
    )
