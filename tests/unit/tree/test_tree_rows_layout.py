"""Rows of large trees: nothing overlaps whatever the tree, and collapsing loses nothing."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.domain.tree import tree_shape
from backend.domain.tree.tree_shape import Inner, Leaf, Node
from backend.web.tree.tree_layout import Box
from backend.web.tree.tree_outline import COLLAPSED, Edge, edges, ends, forks, inner_places, outline, quiet_places
from backend.web.tree.tree_rows_layout import RowsDiagram, lay_out_rows
from backend.web.tree.tree_wish import TreeWish, tree_wish

Targets = dict[tuple[str, int], str]


def halves(names: list[str], level: int) -> Node:
    """Return a tree that halves the names at each level."""
    if len(names) == 1:
        return Leaf(names[0])
    half = (len(names) + 1) // 2
    return Inner(level, halves(names[:half], level - 1), halves(names[half:], level - 1))


def numbered(count: int) -> list[str]:
    return [f"c{n}" for n in range(count)]


@st.composite
def views(draw: st.DrawFn) -> tuple[Node, Targets, frozenset[str]]:
    """Draw a tree of 2 to 60 leaves and at most 8 levels, targets that it allows, and places to collapse."""

    def node(names: list[str], level: int) -> Node:
        if len(names) == 1:
            return Leaf(names[0])
        most = 2 ** (level - 1)  # leaves of a subtree below this level
        cut = draw(st.integers(max(1, len(names) - most), min(most, len(names) - 1)))
        return Inner(level, node(names[:cut], level - 1), node(names[cut:], level - 1))

    root = node(numbered(draw(st.integers(2, 60))), 8)
    places = draw(st.frozensets(st.sampled_from(sorted(inner_places(root))), max_size=12))
    chance = draw(st.randoms(use_true_random=False))
    targets = {(cluster, level): chance.choice(allowed) for cluster, level, allowed in tree_shape.siblings(root)}
    return root, targets, places


@settings(max_examples=60, deadline=None)
@given(views())
def test_any_view_of_any_tree_is_drawn_clearly(view: tuple[Node, Targets, frozenset[str]]) -> None:
    root, targets, places = view
    part = outline(root, places)
    found = edges(part, targets)
    drawn = lay_out_rows(part, found)
    boxes = [place.box for place in (*drawn.ends, *drawn.forks)] + [place.label for place in drawn.edges]
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    whole = Box(0, 0, drawn.width, drawn.height)
    assert all(whole.left <= box.left and box.right <= whole.right for box in boxes)
    assert all(whole.top <= box.top and box.bottom <= whole.bottom for box in boxes)
    tops = [place.box.bottom for place in drawn.ends]
    assert all(bottom <= place.box.top for bottom, place in zip(tops, drawn.ends[1:], strict=False))
    check_arcs(drawn)
    check_edges(part, found, targets)


def check_arcs(drawn: RowsDiagram) -> None:
    """Check that arcs stay in their level's band, right of its labels, and end in their rows."""
    bands = {band.level: band.box for band in drawn.bands}
    rows = {place.end.key: place.box for place in drawn.ends}
    assert not [pair for pair in combinations(bands.values(), 2) if pair[0].overlaps(pair[1])]
    for place in drawn.edges:
        band, edge = bands[place.edge.level], place.edge
        assert band.left <= place.label.left < place.label.right < place.port
        assert place.port + place.bulge <= band.right
        assert rows[edge.source].top - 3 <= place.start <= rows[edge.source].bottom + 3
        assert rows[edge.target].top <= place.end <= rows[edge.target].bottom
        assert all(row.right < band.left for row in rows.values())
    labels = sorted((place.label.left, place.label.top) for place in drawn.edges)
    assert len(set(labels)) == len(labels)


def check_edges(part: object, found: tuple[Edge, ...], targets: Targets) -> None:
    """Check that each distributor is in exactly one edge, or within a collapsed subtree."""
    end_of = {cluster: end for end in ends(part) for cluster in end.clusters}  # type: ignore[arg-type]
    drawn = [key for edge in found for key in edge.distributors]
    across = {f"{cluster}:{level}" for (cluster, level), to in targets.items() if end_of[cluster] != end_of[to]}
    assert sorted(drawn) == sorted(across)
    assert len({edge.key for edge in found}) == len(found)
    for edge in found:
        for key in edge.distributors:
            cluster, level = key.rsplit(":", 1)
            ends_of = end_of[cluster].key, end_of[targets[cluster, int(level)]].key
            assert (edge.source, edge.level, edge.target) == (ends_of[0], int(level), ends_of[1])


def test_fifty_clusters_fit_the_width_of_a_page() -> None:
    root = halves(numbered(50), 6)
    part = outline(root, ())
    drawn = lay_out_rows(part, edges(part, tree_shape.default_targets(root)))
    assert (len(drawn.ends), [band.level for band in drawn.bands]) == (50, [1, 2, 3, 4, 5, 6])
    assert drawn.width <= 1320
    assert drawn.height <= 1400
    assert len(drawn.edges) == len(tree_shape.default_targets(root))
    assert all(right.box.top - left.box.top == 26 for left, right in pairwise(drawn.ends))


def test_a_collapsed_subtree_stands_for_its_leaves_and_merges_its_edges() -> None:
    root = halves(numbered(8), 3)
    part = outline(root, {"r0"})
    assert [(end.key, end.level, end.clusters) for end in ends(part)] == [
        ("~r0", 2, ("c0", "c1", "c2", "c3")),
        *((name, None, (name,)) for name in ("c4", "c5", "c6", "c7")),
    ]
    assert [fork.place for fork in forks(part)] == ["r", "r1", "r10", "r11"]
    targets: Targets = {("c0", 3): "c4", ("c1", 3): "c4", ("c2", 3): "c6", ("c0", 1): "c1", ("c5", 3): "c2"}
    found = {edge.key: edge.distributors for edge in edges(part, targets)}
    assert found == {"~r0:3:c4": ("c0:3", "c1:3"), "c2:3": ("c2:3",), "c5:3": ("c5:3",)}
    both = edges(outline(root, {"r0", "r1"}), targets)
    assert [(edge.key, len(edge.distributors)) for edge in both] == [("~r0:3:~r1", 3), ("c5:3", 1)]
    assert outline(root, {"r"}) == outline(root, ()), "the root stays"


@pytest.mark.parametrize(
    ("leaves", "troubled", "collapsed"),
    [
        (50, (), 8),
        (50, ("c0",), 9),
        (24, (), 0),
    ],
)
def test_large_trees_begin_with_their_quiet_subtrees_collapsed(
    leaves: int, troubled: tuple[str, ...], collapsed: int
) -> None:
    root = halves(numbered(leaves), 6)
    places = TreeWish().places(root, troubled)
    assert len(places) == collapsed
    shown = ends(outline(root, places))
    assert set(troubled) <= {end.key for end in shown}
    assert [name for end in shown for name in end.clusters] == numbered(leaves)
    assert TreeWish("none").places(root, troubled) == frozenset()
    assert TreeWish("quiet").places(root, troubled) == quiet_places(root, troubled)


@pytest.mark.parametrize(
    ("given_text", "kept", "address"),
    [
        ("", "", "/tree"),
        ("none", "none", "/tree?collapsed=none"),
        ("r10,r0,r0", "r0,r10", "/tree?collapsed=r0,r10"),
        ("r0,<b>,n1,r2", "r0", "/tree?collapsed=r0"),
        ("../x", "", "/tree"),
    ],
)
def test_addresses_keep_what_is_collapsed_and_nothing_else(given_text: str, kept: str, address: str) -> None:
    wish = tree_wish(given_text)
    assert (wish.collapsed, wish.address()) == (kept, address)


def test_an_address_names_what_is_open() -> None:
    wish = tree_wish("r1").opening(f"{COLLAPSED}r0:3:c4")
    assert wish.address() == "/tree?collapsed=r1&open=~r0:3:c4"
    assert wish.collapsing([]).address() == "/tree?collapsed=none&open=~r0:3:c4"
    root = halves(numbered(8), 3)
    sorted_too = tree_wish("r1", "c1", (("sort", "-lag"),))
    assert sorted_too.address() == "/tree?collapsed=r1&open=c1&sort=-lag"
    assert sorted_too.opening("").collapsing([]).address() == "/tree?collapsed=none&sort=-lag"
    assert tree_wish("r1,r0000").places(root, ()) == frozenset({"r1"}), "unknown places are ignored"
