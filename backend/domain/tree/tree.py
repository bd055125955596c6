"""Event stream `tree-<name>`: the distribution tree and the targets of its distributors.

A tree is set as a whole; its targets start as the shape's defaults and can each be moved to another leaf of
the sibling subtree. Replacing a tree keeps the targets that are still allowed and were chosen by the operator,
so that editing one corner does not move traffic elsewhere. Before a tree or target is accepted, coverage is
proven for it (`routes.coverage`; `routes.py` proves that it always holds).

    (none) --ReplaceTree--> set --ReplaceTree | SwitchTarget | ChangeDistributor | MovePrimary ...--> set
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backend.domain.base.errors import FieldError, NotFound, TargetNotAllowed, TreeInvalid, ValueInvalid
from backend.domain.base.event import Event
from backend.domain.tree import distributor_settings, primary_move, routes, tree_shape
from backend.domain.tree.distributor_settings import ChangeDistributor, DistributorSettings, SettingsEvent
from backend.domain.tree.primary_move import MovePrimary, PrimaryCommand, PrimaryEvent, RecordPrimaryMoved
from backend.domain.tree.tree_shape import Node

# --- events


@dataclass(frozen=True, kw_only=True)
class TreeReplaced(Event, name="TreeReplaced", version=1):
    """The tree has this shape from now on."""

    root: dict[str, object]
    """Document of the root node, as returned by `tree_shape.document`."""
    primary_cluster: str
    """The only writer of schemas; a leaf of the tree."""
    targets: tuple[tuple[str, int, str], ...]
    """(Cluster, level, target) of every distributor."""


@dataclass(frozen=True, kw_only=True)
class DistributorTargetSwitched(Event, name="DistributorTargetSwitched", version=1):
    """One distributor copies to another leaf of its sibling subtree from now on."""

    cluster: str
    level: int
    target: str
    previous: str


TreeEvent = TreeReplaced | DistributorTargetSwitched | SettingsEvent | PrimaryEvent

# --- commands


@dataclass(frozen=True, kw_only=True)
class ReplaceTree:
    """Set the tree.

    Without `primary_cluster` the current primary stays, or becomes the first leaf. Naming another cluster is only
    allowed if the current primary leaves the tree: if both stay, the primary is moved (`primary_move.py`).
    """

    root: object
    known_clusters: frozenset[str]
    primary_cluster: str | None = None


@dataclass(frozen=True, kw_only=True)
class SwitchTarget:
    """Switch the target of (cluster, level) to `target`."""

    cluster: str
    level: int
    target: str


TreeCommand = ReplaceTree | SwitchTarget | ChangeDistributor | PrimaryCommand

# --- state


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Current state of the tree; `root` is None before the first event."""

    root: Node | None = None
    primary_cluster: str | None = None
    targets: Mapping[tuple[str, int], str] = field(default_factory=dict)
    settings: Mapping[tuple[str, int], DistributorSettings] = field(default_factory=dict)
    """Only settings that were ever changed."""
    move: primary_move.Move | None = None
    """Move of the primary in progress, if any."""


INITIAL = Tree()

# --- decide


def decide(state: Tree, command: TreeCommand) -> list[TreeEvent]:
    """Return the events that carry out the command; none if it changes nothing.

    Raises TreeInvalid, ValueInvalid (primary), NotFound (distributor), TargetNotAllowed.
    """
    match command:
        case ReplaceTree():
            return _replace(state, command)
        case SwitchTarget():
            return _switch(state, command)
        case ChangeDistributor():
            key = _existing(state, command.cluster, command.level)
            present = state.settings.get(key, distributor_settings.DEFAULTS)
            return list(distributor_settings.decide(present, command))
        case MovePrimary() | RecordPrimaryMoved():
            if state.root is None or state.primary_cluster is None:
                raise NotFound("there is no tree main yet; PUT /trees/main sets it")
            leaves = tree_shape.leaves(state.root)
            return list(primary_move.decide(state.primary_cluster, state.move, leaves, command))


def _replace(state: Tree, command: ReplaceTree) -> list[TreeEvent]:
    root = tree_shape.parse(command.root, command.known_clusters)
    names = tree_shape.leaves(root)
    primary = command.primary_cluster or state.primary_cluster or names[0]
    if primary not in names:
        raise ValueInvalid(
            f"the primary cluster {primary!r} is not a leaf of the tree; it is the only writer of schemas, so "
            f"name one of {', '.join(names)}",
            (FieldError("/primary_cluster", f"{primary!r} is not a leaf of the tree"),),
        )
    if state.primary_cluster in names and primary != state.primary_cluster:
        raise ValueInvalid(
            f"{state.primary_cluster} is the primary cluster and writes schemas until it is told to stop: move it "
            "with PUT /trees/main/primary, then set the tree",
            (FieldError("/primary_cluster", f"must be {state.primary_cluster!r}, or left out"),),
        )
    targets = _keep_chosen(state, root)
    proof = routes.coverage(root, targets)
    if not proof.proven:
        raise TreeInvalid(f"coverage fails: missing {proof.missing[:3]}, doubled {proof.doubled[:3]}")
    if root == state.root and primary == state.primary_cluster:
        return []
    rows = tuple((cluster, level, target) for (cluster, level), target in targets.items())
    return [TreeReplaced(root=tree_shape.document(root), primary_cluster=primary, targets=rows)]


def _keep_chosen(state: Tree, root: Node) -> dict[tuple[str, int], str]:
    """Return the default targets of the new shape, with targets chosen in the old one where still allowed."""
    targets = tree_shape.default_targets(root)
    if state.root is None:
        return targets
    before = tree_shape.default_targets(state.root)
    chosen = {key: target for key, target in state.targets.items() if target != before.get(key)}
    for cluster, level, allowed in tree_shape.siblings(root):
        wish = chosen.get((cluster, level))
        if wish in allowed:
            targets[cluster, level] = wish
    return targets


def _switch(state: Tree, command: SwitchTarget) -> list[TreeEvent]:
    key = _existing(state, command.cluster, command.level)
    allowed = allowed_targets(state, command.cluster, command.level)
    if command.target not in allowed:
        raise TargetNotAllowed(
            f"{command.cluster}:{command.level} can copy to {' or '.join(allowed)}, the leaves of its sibling "
            f"subtree, not to {command.target!r}",
            (FieldError("/target", f"must be one of {', '.join(allowed)}"),),
        )
    if state.targets[key] == command.target:
        return []
    return [
        DistributorTargetSwitched(
            cluster=command.cluster, level=command.level, target=command.target, previous=state.targets[key]
        )
    ]


def _existing(state: Tree, cluster: str, level: int) -> tuple[str, int]:
    if state.root is None or (cluster, level) not in state.targets:
        raise NotFound(
            f"there is no distributor of cluster {cluster!r} at level {level}; "
            "GET /trees/main/distributors lists them"
        )
    return cluster, level


def allowed_targets(state: Tree, cluster: str, level: int) -> tuple[str, ...]:
    """Return the leaves that the distributor (cluster, level) may copy to."""
    if state.root is None:
        return ()
    for name, at, sibling in tree_shape.siblings(state.root):
        if (name, at) == (cluster, level):
            return sibling
    return ()


# --- evolve


def evolve(state: Tree, event: Event) -> Tree:
    """Return the state after an event; events of other versions of this program never raise."""
    match event:
        case TreeReplaced():
            targets = {(cluster, level): target for cluster, level, target in event.targets}
            return Tree(
                root=tree_shape.parse(event.root, clusters_of(event.root)),
                primary_cluster=event.primary_cluster,
                targets=targets,
                settings={key: kept for key, kept in state.settings.items() if key in targets},
                move=state.move if state.move and state.move.cluster in clusters_of(event.root) else None,
            )
        case DistributorTargetSwitched():
            return replace(state, targets={**state.targets, (event.cluster, event.level): event.target})
        case _ if isinstance(event, SettingsEvent):
            key = (event.cluster, event.level)
            settings = distributor_settings.evolve(state.settings.get(key, distributor_settings.DEFAULTS), event)
            return replace(state, settings={**state.settings, key: settings})
        case _ if isinstance(event, PrimaryEvent):
            primary, move = primary_move.evolve(state.primary_cluster, state.move, event)
            return replace(state, primary_cluster=primary, move=move)
        case _:
            return state


def clusters_of(document: object) -> frozenset[str]:
    """Return all clusters that a tree's document names."""
    if not isinstance(document, dict):
        return frozenset()
    if "cluster" in document:
        return frozenset((str(document["cluster"]),))
    children = document.get("children")
    return frozenset().union(*map(clusters_of, children if isinstance(children, list) else []))
