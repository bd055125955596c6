"""A tree that is being edited, as its page shows it: its nodes, what is wrong at which, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlalchemy import Connection

from backend.domain.base.errors import DomainError, TreeInvalid, ValueInvalid
from backend.domain.tree import tree_shape
from backend.domain.tree.routes import Targets
from backend.domain.tree.tree_edit import Document, Draft, Step, clusters_of, edited, place_of
from backend.queries.clusters.clusters import list_clusters
from backend.queries.tree.trees import TreeRow, get_tree, tree_position
from backend.web.tree.tree_edit_drawing import NodeView, Sketch, sketch
from backend.web.tree.tree_edit_proof import ProofView, proof_of
from backend.web.tree.tree_edit_state import EditState, in_words

_OF_THE_PRIMARY = "/primary_cluster"


@dataclass(frozen=True)
class Editing:
    """What one address of the page stands for."""

    state: EditState
    base: TreeRow | None
    """The tree as it was opened."""
    now: TreeRow | None
    clusters: tuple[str, ...]
    """All that there are."""
    draft: Draft
    told: tuple[str, ...]
    """The steps in words."""
    does_not_fit: ValueInvalid | None
    """Why not all of the steps could be done."""

    @property
    def version(self) -> int:
        """Of the tree that was opened; 0: there was none."""
        return 0 if self.base is None else self.base.version

    @property
    def is_outdated(self) -> bool:
        """Whether somebody has set another tree since."""
        return self.version != (0 if self.now is None else self.now.version)

    @property
    def changed(self) -> bool:
        """Whether there is anything to save."""
        before = None if self.base is None else self.base.root
        return self.draft.root is not None and (self.draft.root != before or self.draft.primary is not None)

    @cached_property
    def shape_errors(self) -> Mapping[str, Sequence[str]]:
        """What is wrong with the shape, by place."""
        if self.draft.root is None:
            return {}
        try:
            tree_shape.parse(self.draft.root, self.clusters)
        except TreeInvalid as error:
            return by_place(error)
        return {}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Of the draft, from left to right."""
        return () if self.draft.root is None else clusters_of(self.draft.root)

    @cached_property
    def leaves_before(self) -> frozenset[str]:
        """Of the tree as it was opened."""
        return frozenset() if self.base is None else frozenset(clusters_of(self.base.root))

    @property
    def unused(self) -> tuple[str, ...]:
        """Clusters that are no leaf of the draft."""
        inside = set(self.leaves)
        return tuple(name for name in self.clusters if name not in inside)

    @cached_property
    def primary(self) -> str | None:
        """Who is to be the only writer of schemas; None: that has to be chosen."""
        present = None if self.base is None else self.base.primary_cluster
        names = self.leaves
        if self.draft.primary in names:
            return self.draft.primary
        if present in names:
            return present
        return names[0] if names and self.base is None else None

    @property
    def may_choose_primary(self) -> bool:
        """Where the present one stays it is moved, not chosen."""
        return self.base is None or self.base.primary_cluster not in self.leaves


def editing(connection: Connection, state: EditState) -> Editing:
    """Follow the steps as far as they fit."""
    base = get_tree(connection, state.opened)
    clusters = tuple(row.name for row in list_clusters(connection))
    draft, told, problem = _followed(
        Draft(None if base is None else base.root), state.steps, state.done, len(clusters)
    )
    # Read once, as it mostly still is the one that was opened: fifty clusters have some hundred targets.
    is_present = base is not None and base.position == tree_position(connection)
    present = base if is_present else get_tree(connection)
    return Editing(state, base, present, clusters, draft, told, problem)


def _followed(
    draft: Draft, steps: Sequence[Step], done: int, clusters: int
) -> tuple[Draft, tuple[str, ...], ValueInvalid | None]:
    """The draft after the steps that are done; all of them in words; why they do not all fit."""
    told: list[str] = []
    shown, problem = draft, None
    for number, step in enumerate(steps, 1):
        named = _names(draft.root)
        told.append(in_words(step, named))
        try:
            draft = edited(draft, [step], clusters)
        except ValueInvalid as error:
            detail = (
                f"step {number}, “{told[-1]}”, does not fit: {error.detail.partition(': ')[2] or error.detail}"
            )
            problem = ValueInvalid(detail) if number <= done else None
            told += [str(each) for each in steps[number:]]
            break
        if number <= done:
            shown = draft
    return shown, tuple(told), problem


def _names(root: Document | None) -> dict[str, str]:
    """What each node is called, by place."""
    return {} if root is None else {node.place: node.name for node in sketch(root, {}).nodes}


def by_place(error: DomainError) -> dict[str, list[str]]:
    """What is wrong, by the node where it is; under `""` what is at none."""
    found: dict[str, list[str]] = {}
    for each in error.errors:
        where = "" if each.pointer == _OF_THE_PRIMARY else place_of(each.pointer)
        found.setdefault(where, []).append(each.detail)
    return found


@dataclass(frozen=True)
class EditView:
    """All that the template needs of it."""

    edit: Editing
    errors: Mapping[str, Sequence[str]]
    """By place, of the shape and of what a dry run refused."""
    targets: Targets | None
    """Those that there would be; None: the tree is refused."""

    @cached_property
    def sketch(self) -> Sketch | None:
        root = self.edit.draft.root
        return None if root is None else sketch(root, self.errors)

    @cached_property
    def chosen(self) -> NodeView | None:
        nodes = self.sketch.nodes if self.sketch else ()
        return next((node for node in nodes if node.place == self.edit.state.node), nodes[0] if nodes else None)

    @cached_property
    def proof(self) -> ProofView | None:
        return proof_of(self.edit.draft.root, self.targets)

    def address(self, node: NodeView) -> str:
        """Where a node is chosen."""
        return self.edit.state.choosing(node.place).address

    def is_new(self, node: NodeView) -> bool:
        """Whether its cluster joins the tree."""
        return node.cluster is not None and node.cluster not in self.edit.leaves_before

    def mark(self, node: NodeView) -> str:
        """What a leaf's second line says."""
        if node.problems:
            return "see below"
        if node.cluster == self.edit.primary:
            return "primary"
        return "joins" if self.is_new(node) else "leaf"

    @property
    def elsewhere(self) -> list[tuple[str, str]]:
        """Nodes that the chosen one can be moved beside: place and name."""
        chosen, nodes = self.chosen, self.sketch.nodes if self.sketch else ()
        if chosen is None or chosen.place == "r":
            return []
        return [(node.place, node.name) for node in nodes if not node.place.startswith(chosen.place)]

    @property
    def others(self) -> list[tuple[str, str]]:
        """Clusters that could stand where the chosen one stands."""
        chosen = self.chosen
        inside = set(self.edit.leaves)
        return [
            (name, f"{name}, which changes places with it" if name in inside else name)
            for name in self.edit.clusters
            if chosen is not None and name != chosen.cluster
        ]

    @property
    def undo(self) -> str | None:
        state = self.edit.state
        return state.at_step(state.done - 1).address if state.done else None

    @property
    def redo(self) -> str | None:
        state = self.edit.state
        return state.at_step(state.done + 1).address if state.done < len(state.steps) else None

    @property
    def on_top(self) -> str:
        """The same steps on the tree as it is now."""
        now = self.edit.now
        return replace(self.edit.state, opened=0 if now is None else now.position).address

    @property
    def steps(self) -> list[tuple[str, bool, str]]:
        """(in words, whether it is done, where it is the last that is done)."""
        state = self.edit.state
        return [
            (words, number <= state.done, state.at_step(number).address)
            for number, words in enumerate(self.edit.told, 1)
        ]
