"""View of a tree that is being edited: its nodes, their errors, and the possible steps."""

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
    """Content of one address of the page."""

    state: EditState
    base: TreeRow | None
    """The tree as it was opened."""
    now: TreeRow | None
    clusters: tuple[str, ...]
    """All clusters."""
    draft: Draft
    told: tuple[str, ...]
    """Descriptions of the steps."""
    does_not_fit: ValueInvalid | None
    """The reason why not all of the steps could be applied."""

    @property
    def version(self) -> int:
        """Return the version of the tree that was opened; 0 if there was none."""
        return 0 if self.base is None else self.base.version

    @property
    def is_outdated(self) -> bool:
        """Return whether another tree was set since."""
        return self.version != (0 if self.now is None else self.now.version)

    @property
    def changed(self) -> bool:
        """Return whether there is anything to save."""
        before = None if self.base is None else self.base.root
        return self.draft.root is not None and (self.draft.root != before or self.draft.primary is not None)

    @cached_property
    def shape_errors(self) -> Mapping[str, Sequence[str]]:
        """Return the errors of the shape, by place."""
        if self.draft.root is None:
            return {}
        try:
            tree_shape.parse(self.draft.root, self.clusters)
        except TreeInvalid as error:
            return by_place(error)
        return {}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Return the leaves of the draft, from left to right."""
        return () if self.draft.root is None else clusters_of(self.draft.root)

    @cached_property
    def leaves_before(self) -> frozenset[str]:
        """Return the leaves of the tree as it was opened."""
        return frozenset() if self.base is None else frozenset(clusters_of(self.base.root))

    @property
    def unused(self) -> tuple[str, ...]:
        """Return the clusters that are no leaf of the draft."""
        inside = set(self.leaves)
        return tuple(name for name in self.clusters if name not in inside)

    @cached_property
    def primary(self) -> str | None:
        """Return the primary of the draft; None if it must be chosen."""
        present = None if self.base is None else self.base.primary_cluster
        names = self.leaves
        if self.draft.primary in names:
            return self.draft.primary
        if present in names:
            return present
        return names[0] if names and self.base is None else None

    @property
    def may_choose_primary(self) -> bool:
        """Return whether the primary is chosen here; one that stays in the tree is moved instead."""
        return self.base is None or self.base.primary_cluster not in self.leaves


def editing(connection: Connection, state: EditState) -> Editing:
    """Apply the steps as far as they fit."""
    base = get_tree(connection, state.opened)
    clusters = tuple(row.name for row in list_clusters(connection))
    draft, told, problem = _followed(
        Draft(None if base is None else base.root), state.steps, state.done, len(clusters)
    )
    # Avoids a second read if the opened tree is still current: fifty clusters have some hundred targets.
    is_present = base is not None and base.position == tree_position(connection)
    present = base if is_present else get_tree(connection)
    return Editing(state, base, present, clusters, draft, told, problem)


def _followed(
    draft: Draft, steps: Sequence[Step], done: int, clusters: int
) -> tuple[Draft, tuple[str, ...], ValueInvalid | None]:
    """Return the draft after the done steps, the descriptions of all steps, and why some of them do not fit."""
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
    """Return the name of each node, by place."""
    return {} if root is None else {node.place: node.name for node in sketch(root, {}).nodes}


def by_place(error: DomainError) -> dict[str, list[str]]:
    """Group errors by the place of their node; `""` for those without a node."""
    found: dict[str, list[str]] = {}
    for each in error.errors:
        where = "" if each.pointer == _OF_THE_PRIMARY else place_of(each.pointer)
        found.setdefault(where, []).append(each.detail)
    return found


@dataclass(frozen=True)
class EditView:
    """Data of the template."""

    edit: Editing
    errors: Mapping[str, Sequence[str]]
    """Errors by place, of the shape and of the dry run."""
    targets: Targets | None
    """Targets of the draft; None if the tree is refused."""

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
        """Return the address with a node selected."""
        return self.edit.state.choosing(node.place).address

    def is_new(self, node: NodeView) -> bool:
        """Return whether the node's cluster joins the tree."""
        return node.cluster is not None and node.cluster not in self.edit.leaves_before

    def mark(self, node: NodeView) -> str:
        """Return the second line of a leaf."""
        if node.problems:
            return "see below"
        if node.cluster == self.edit.primary:
            return "primary"
        return "joins" if self.is_new(node) else "leaf"

    @property
    def elsewhere(self) -> list[tuple[str, str]]:
        """Return (place, name) of the nodes beside which the selected one can be moved."""
        chosen, nodes = self.chosen, self.sketch.nodes if self.sketch else ()
        if chosen is None or chosen.place == "r":
            return []
        return [(node.place, node.name) for node in nodes if not node.place.startswith(chosen.place)]

    @property
    def others(self) -> list[tuple[str, str]]:
        """Return the clusters that could replace the selected one."""
        chosen = self.chosen
        inside = set(self.edit.leaves)
        return [
            (name, f"{name} (they change places)" if name in inside else name)
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
        """Return the address with the same steps on the current tree."""
        now = self.edit.now
        return replace(self.edit.state, opened=0 if now is None else now.position).address

    @property
    def steps(self) -> list[tuple[str, bool, str]]:
        """Return (description, whether it is done, address with it as the last step done) of each step."""
        state = self.edit.state
        return [
            (words, number <= state.done, state.at_step(number).address)
            for number, words in enumerate(self.edit.told, 1)
        ]
