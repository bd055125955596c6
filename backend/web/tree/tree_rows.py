"""Rows of the tree: leaves and collapsed subtrees with their edges, each with state, sums and words.

Large trees are drawn so, small ones once something is collapsed. Telephones have it as a list, whatever the size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from backend.domain.distribution.distributor_states import UNOBSERVED, worst
from backend.domain.tree.tree_shape import Node
from backend.web.tree.distributor import Distributor
from backend.web.tree.tree_outline import Edge, End, Fork, Part, edges, ends, outline
from backend.web.tree.tree_rows_layout import EdgePlace, RowsDiagram, lay_out_rows
from backend.web.tree.tree_view import Leaf, Picture, sum_of_known
from backend.web.tree.tree_wish import TreeWish
from backend.web.words.figures import compact, counted, full, shortened

MOST_WITH_CARDS = 8
"""Largest number of leaves of a tree that is drawn with cards, and a label at each arrow."""
_LAYOUTS_KEPT = 16
"""Layouts that are not computed again for each report of a distributor."""
_RATES = (0.05, 30, 1_000, 30_000)
"""Rates in records per second from which the line of an edge is a step wider."""


@dataclass(frozen=True)
class EdgeRow:
    """An edge with its distributors."""

    edge: Edge
    members: tuple[Distributor, ...]

    @cached_property
    def state(self) -> str:
        """Return the worst state of its distributors."""
        return worst(each.state for each in self.members)

    @cached_property
    def rate(self) -> float | None:
        """Return the records per second of all together."""
        return sum_of_known(each.rate for each in self.members)

    @cached_property
    def lag(self) -> float | None:
        """Return the lag of all together."""
        return sum_of_known(each.lag for each in self.members)

    @cached_property
    def late(self) -> int:
        """Return the number of late distributors."""
        return sum(each.is_late for each in self.members)

    @cached_property
    def has_problem(self) -> bool:
        """Return whether the label is always shown."""
        return any(each.is_problem for each in self.members)

    @property
    def step(self) -> int:
        """Return the width of the line, 0 to 4."""
        return sum((self.rate or 0) >= least for least in _RATES)

    @cached_property
    def label(self) -> str:
        """Return the text at the start of the edge, at most 17 characters."""
        return shortened(self._label, 17)

    @property
    def _label(self) -> str:
        if self.state == UNOBSERVED:
            return f"to {self.edge.target}"
        if not self.has_problem:
            return f"{compact(self.rate)}/s lag {compact(self.lag)}"
        troubled = sum(each.state == self.state for each in self.members)
        many = len(self.members) > 1
        if self.state == "running":
            return f"{self.late}/{len(self.members)} late" if many else f"late {compact(self.lag)}"
        if many:
            return f"{troubled}/{len(self.members)} {self.state}"
        if self.late:
            return f"{self.state}, late"
        return self.state if self.lag is None else f"{self.state} {compact(self.lag)}"

    @property
    def glyph(self) -> str:
        """Return the glyph of its label: late is a problem, though it runs."""
        return "blocked" if self.has_problem and self.state == "running" else self.state

    @property
    def spoken(self) -> str:
        """Return the edge in words, with what is seen of a problem; the table and the drawer have the reasons."""
        said = self._spoken
        return f"{said}. {self.label}" if self.has_problem and self.label not in said else said

    @property
    def _spoken(self) -> str:
        if len(self.members) == 1:
            return self.members[0].summary
        ways = f"{len(self.members)} distributors of level {self.edge.level}"
        return f"{ways}: {self.counts}, {compact(self.rate)} records per second, lag {full(self.lag)}"

    @property
    def counts(self) -> str:
        """Return the number of distributors in each state, in words."""
        return _counted_states((each.state for each in self.members), self.late)


@dataclass(frozen=True)
class EndRow:
    """A leaf or collapsed subtree with what is known of its clusters and of the distributors that read them."""

    end: End
    leaves: tuple[Leaf, ...]
    reading: tuple[Distributor, ...]
    writing: tuple[Distributor, ...]
    """Distributors that write to it from outside."""
    problems: int
    """Number of offline clusters, and of distributors with a problem of their own."""

    @property
    def leaf(self) -> Leaf | None:
        """Return the cluster of a leaf that exists."""
        return self.leaves[0] if self.end.level is None and self.leaves else None

    @cached_property
    def state(self) -> str:
        """Return the state of the leaf; of a subtree the worst."""
        states = {each.state for each in self.leaves}
        return next((state for state in ("offline", "draining", "online") if state in states), UNOBSERVED)

    @cached_property
    def states(self) -> list[tuple[str, int]]:
        """Return the number of clusters in each state."""
        return sorted(Counter(each.state for each in self.leaves).items(), key=lambda row: row[0] == "offline")

    @property
    def running(self) -> int:
        return sum(each.state == "running" for each in self.reading)

    @property
    def is_primary(self) -> bool:
        return any(each.primary for each in self.leaves)

    @property
    def name(self) -> str:
        """Return the cluster, or the number of clusters."""
        return self.end.key if self.end.level is None else counted(len(self.end.clusters), "cluster")

    @property
    def title(self) -> str:
        """Return the text of a collapsed subtree."""
        found = counted(len(self.end.clusters), "cluster")
        return f"{found}, {counted(self.problems, 'problem')}" if self.problems else found

    @property
    def lag(self) -> float | None:
        """Return the records that wait for it."""
        return sum_of_known(each.lag for each in self.writing)

    @property
    def spoken(self) -> str:
        """Return what is not written on the box of a collapsed subtree."""
        clusters = _counted_states((each.state for each in self.leaves), 0)
        late = sum(each.is_late for each in self.reading)
        copying = _counted_states((each.state for each in self.reading), late)
        names = f"{self.end.clusters[0]} to {self.end.clusters[-1]}"
        return f"{names}: {clusters}; distributors: {copying}"


def _counted_states(states: Iterable[str], late: int) -> str:
    found = Counter(states)
    known = [f"{found[state]} {state}" for state in sorted(found)]
    return ", ".join([*known, *([f"{late} late"] if late else [])])


@dataclass(frozen=True)
class _LaidOut:
    """The parts of the rows that follow from the tree and from what is collapsed."""

    part: Part
    edges: tuple[Edge, ...]
    diagram: RowsDiagram


@lru_cache(_LAYOUTS_KEPT)
def _lay_out(shape: Node, targets: tuple[tuple[tuple[str, int], str], ...], places: frozenset[str]) -> _LaidOut:
    part = outline(shape, places)
    found = edges(part, dict(targets))
    return _LaidOut(part, found, lay_out_rows(part, found))


@dataclass(frozen=True)
class TreeRows:
    """The rows of a picture, as a viewer wants to see them."""

    picture: Picture
    wish: TreeWish

    @cached_property
    def places(self) -> frozenset[str]:
        """Return the places that are collapsed."""
        tree = self.picture.state.tree
        return frozenset() if tree is None else self.wish.places(tree.shape, self.picture.problems)

    @property
    def part(self) -> Part:
        """Return the outline of the tree, which exists."""
        return self._laid_out.part

    @cached_property
    def _laid_out(self) -> _LaidOut:
        tree = self.picture.state.tree
        assert tree is not None
        return _lay_out(tree.shape, tuple(tree.targets.items()), self.places)

    @cached_property
    def are_drawn(self) -> bool:
        """Return whether the tree is drawn as rows, not with cards."""
        return len(self.part.clusters) > MOST_WITH_CARDS or bool(self.places)

    @property
    def settled(self) -> TreeWish:
        """Return the wish with the places that are collapsed now, so that nothing moves by itself later."""
        shown = self.picture.state.tree is not None and self.are_drawn
        return self.wish.collapsing(self.places) if shown else self.wish.with_collapsed("")

    @property
    def live_address(self) -> str:
        """Return the address of the changes."""
        return self.wish.opening("").address("/tree/live")

    @cached_property
    def edges(self) -> tuple[EdgeRow, ...]:
        """Return the edges in the order of the table, which is also the keyboard's."""
        known = self.picture.distributors
        return tuple(
            EdgeRow(edge, tuple(known[key] for key in edge.distributors if key in known))
            for edge in self._laid_out.edges
        )

    @cached_property
    def ends(self) -> Mapping[str, EndRow]:
        """Return the ends by key, from left to right."""
        reading: dict[str, list[Distributor]] = {}
        writing: dict[str, list[Distributor]] = {}
        for each in self.picture.distributors.values():
            reading.setdefault(each.row.cluster, []).append(each)
            writing.setdefault(each.row.target, []).append(each)
        found = {}
        for end in ends(self.part):
            inside = set(end.clusters)
            found[end.key] = EndRow(
                end=end,
                leaves=tuple(self.picture.leaves[name] for name in end.clusters if name in self.picture.leaves),
                reading=tuple(each for name in end.clusters for each in reading.get(name, ())),
                writing=tuple(
                    each
                    for name in end.clusters
                    for each in writing.get(name, ())
                    if each.row.cluster not in inside
                ),
                problems=sum(self.picture.problems.get(name, 0) for name in end.clusters),
            )
        return found

    @property
    def diagram(self) -> RowsDiagram:
        """Return the places of the drawing."""
        return self._laid_out.diagram

    @property
    def glyphs(self) -> list[str]:
        """Return the glyphs of the edges' labels, each once."""
        return sorted({row.glyph for row in self.edges})

    @property
    def placed(self) -> list[tuple[EdgePlace, EdgeRow]]:
        """Return the places of the edges with what they show."""
        return list(zip(self.diagram.edges, self.edges, strict=True))

    def toggled(self, place: str) -> str:
        """Return the address at which this place is collapsed if it is not, else expanded."""
        return self.wish.collapsing(self.places ^ {place}).address()

    @cached_property
    def _opening(self) -> str:
        closed = self.wish.opening("").address()
        return f"{closed}{'&' if '?' in closed else '?'}open="

    def opening(self, key: str) -> str:
        """Return the address at which the drawer shows this cluster or edge; keys need no quoting."""
        return self._opening + key

    def is_root(self, fork: Fork) -> bool:
        """Return whether this is the root, which stays."""
        return fork.place == self.part.place
