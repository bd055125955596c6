"""Undo of changes of the tree, its distributors, clusters and policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from backend.changes import clusters, placement_policies, trees
from backend.changes.undoing.undo import (
    CannotBeUndone,
    Find,
    Undo,
    UndoRequest,
    changed_fields,
    check_not_replaced,
    unchanged,
)
from backend.domain.access.access import Action
from backend.domain.base.errors import StateConflict
from backend.domain.topics.replica_defaults import ReplicaDefaults
from backend.domain.tree import tree_shape
from backend.domain.tree.distributor_settings import DEFAULTS
from backend.queries.clusters.clusters import ClusterRow, get_cluster
from backend.queries.placement.placement_policies import PolicyRow, find_policy
from backend.queries.tree.trees import TreeRow, get_tree

_DESCRIBED = ("zone", "topic_format", "group_format", "subject_format")
_REACHED_BY = ("bootstrap_servers", "properties")
_NEW_ROUTES = "Distributors that differ from before start as new ones do: their routes decide where they continue."


def _tree(asked: UndoRequest, at: int | None = None) -> TreeRow:
    row = get_tree(asked.connection, at)
    if row is None:
        raise CannotBeUndone("There was no tree before, and a tree cannot be removed: set another one.")
    return row


def _any_version(version: int | None) -> None:
    """Accept any version: later changes are detected field by field."""


def _target(asked: UndoRequest) -> Undo:
    cluster, level, target = (asked.data[name] for name in ("cluster", "level", "target"))
    now = _tree(asked).targets.get((cluster, level))
    unchanged(f"{cluster}:{level}", {"target": target}, None if now is None else {"target": now})
    return Undo(
        change=trees.switch_target(cluster, level, asked.data["previous"], _any_version),
        action=Action.CHANGE_ESTATE,
    )


def _settings(asked: UndoRequest) -> Undo:
    place = (asked.data["cluster"], asked.data["level"])
    before, after, now = (
        vars(_tree(asked, at).settings.get(place, DEFAULTS)) for at in (asked.before, asked.at, None)
    )
    changed = changed_fields(before, after)
    if place not in _tree(asked).targets:
        raise StateConflict(f"distributor {place[0]}:{place[1]} no longer exists")
    unchanged(f"{place[0]}:{place[1]}", changed, now)
    given = {name: before[name] for name in changed}
    return Undo(change=trees.change_distributor(*place, given, _any_version), action=Action.CHANGE_ESTATE)


def _replaced(asked: UndoRequest) -> Undo:
    before, after, now = _tree(asked, asked.before), _tree(asked, asked.at), _tree(asked)
    unchanged("the tree", {"root": after.root}, {"root": now.root})
    # A primary that stays a leaf is kept: it has a command of its own.
    stays = now.primary_cluster in tree_shape.leaves(before.shape)
    notes = [_NEW_ROUTES, *_not_as_before(before, after)]
    if stays and now.primary_cluster != before.primary_cluster:
        notes.append(f"The primary stays {now.primary_cluster}; it was {before.primary_cluster} before the event.")
    return Undo(
        change=trees.replace_tree(before.root, None if stays else before.primary_cluster, _any_version),
        action=Action.CHANGE_ESTATE,
        notes=tuple(notes),
    )


def _not_as_before(before: TreeRow, after: TreeRow) -> Iterator[str]:
    """Describe settings that distributors lose because the event ended them: they start as new ones do."""
    usual = tree_shape.default_targets(before.shape)
    for place in sorted(before.targets.keys() - after.targets.keys()):
        name, target, chosen = (
            f"{place[0]}:{place[1]}",
            before.targets[place],
            before.settings.get(place, DEFAULTS),
        )
        if chosen.paused:
            yield f"{name} was paused and will run: pause it again."
        if chosen not in (DEFAULTS, replace(DEFAULTS, paused=True)):
            yield f"{name} had its own limit or compression, which is not restored."
        if target != usual.get(place):
            yield f"{name} copied to {target} and will copy to {usual.get(place)}: choose its target again."


def _primary(asked: UndoRequest) -> Undo:
    cluster, previous = asked.data["cluster"], asked.data["previous"]
    unchanged("the tree", {"primary_cluster": cluster}, {"primary_cluster": _tree(asked).primary_cluster})
    return Undo(change=trees.move_primary(previous, False, _any_version), action=Action.CHANGE_ESTATE)


def _moving(asked: UndoRequest) -> Undo:
    row = _tree(asked)
    check_not_replaced(asked, "the move", ["PrimaryMoveBegun", "PrimaryMoveCancelled", "PrimaryMoved"])
    if row.move is None or row.move.cluster != asked.data["cluster"]:
        raise StateConflict("this move of the primary is over: undo the event that completed it")
    return Undo(change=trees.move_primary(row.primary_cluster, False, _any_version), action=Action.CHANGE_ESTATE)


def _cluster(row: ClusterRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in (*_DESCRIBED, *_REACHED_BY)}


def _described(asked: UndoRequest) -> Undo:
    name = asked.event.stream.removeprefix("cluster-")
    before, after, now = (get_cluster(asked.connection, name, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier description of the cluster is not known.")
    check_not_replaced(asked, name, ["ClusterRemoved"])
    changed = changed_fields(_cluster(before), _cluster(after))
    if any(each in changed for each in _REACHED_BY):
        raise CannotBeUndone(
            f"The connection of {name} was changed, and a new connection must be probed first: change its "
            "bootstrap servers and properties as they are to be."
        )
    unchanged(name, changed, None if now is None else _cluster(now))
    given = {each: getattr(before, each) for each in changed}
    if "zone" in given and before.zone is None:
        given["clear_zone"] = True
    return Undo(change=clusters.change_cluster(name, given), action=Action.CHANGE_ESTATE)


def _defaults(asked: UndoRequest) -> Undo:
    name = asked.event.stream.removeprefix("cluster-")
    before, after, now = (get_cluster(asked.connection, name, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier default replicas of the cluster are not known.")
    check_not_replaced(asked, name, ["ClusterRemoved"])
    changed = changed_fields(vars(before.defaults), vars(after.defaults))
    present = None if now is None else vars(now.defaults)
    unchanged(f"the default replicas of {name}", changed, present)
    # A command sets both fields: a value that was set since in the other one is kept.
    wanted = ReplicaDefaults(**{**(present or {}), **{each: vars(before.defaults)[each] for each in changed}})
    return Undo(change=clusters.change_cluster(name, {"defaults": wanted}), action=Action.CHANGE_ESTATE)


def _added(asked: UndoRequest) -> Undo:
    name = asked.data["name"]
    check_not_replaced(asked, name, ["ClusterRemoved"])
    unchanged(name, {}, None if get_cluster(asked.connection, name) is None else {})
    return Undo(
        change=clusters.remove_cluster(name),
        action=Action.CHANGE_ESTATE,
        notes=("Its number is given to no other cluster.",),
    )


def _policy(asked: UndoRequest) -> Undo:
    name = asked.data["cluster"]
    check_not_replaced(asked, f"the placement policy of {name}", ["ClusterRemoved"])
    before, after, now = (find_policy(asked.connection, name, at) for at in (asked.before, asked.at, None))
    unchanged(f"the placement policy of {name}", _ruled(after), _ruled(now))
    return Undo(change=placement_policies.set_policy(name, before.policy), action=Action.CHANGE_ESTATE)


def _ruled(row: PolicyRow) -> dict[str, Any]:
    return vars(row.policy)


FINDERS: dict[str, Find] = {
    "DistributorTargetSwitched": _target,
    "DistributorPaused": _settings,
    "DistributorResumed": _settings,
    "DistributorLimitChanged": _settings,
    "DistributorCompressionChanged": _settings,
    "TreeReplaced": _replaced,
    "PrimaryMoved": _primary,
    "PrimaryMoveBegun": _moving,
    "ClusterChanged": _described,
    "ClusterAdded": _added,
    "ClusterDefaultsSet": _defaults,
    "PlacementPolicySet": _policy,
}
