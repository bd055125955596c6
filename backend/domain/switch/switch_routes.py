"""Distributor targets that a switch changes, and that a reverse switch restores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from backend.domain.switch.cluster_switch import Retarget
from backend.domain.tree import tree_shape
from backend.domain.tree.routes import Targets
from backend.domain.tree.tree_shape import Node


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A distributor that keeps copying to the old cluster, and the reason."""

    cluster: str
    level: int
    reason: str


def retargets(
    root: Node, targets: Targets, source: str, is_online: Callable[[str], bool]
) -> tuple[tuple[Retarget, ...], tuple[Kept, ...]]:
    """Return new targets for the distributors that copy to `source`, and those that have to stay.

    Each takes another leaf of its sibling subtree that is online: its default target, or else the next one after
    that from left to right, round the end.
    """
    defaults = tree_shape.default_targets(root)
    moved: list[Retarget] = []
    kept: list[Kept] = []
    for cluster, level, allowed in tree_shape.siblings(root):
        if targets[cluster, level] != source:
            continue
        first = allowed.index(defaults[cluster, level])
        others = [leaf for leaf in allowed[first:] + allowed[:first] if leaf != source]
        online = next(filter(is_online, others), None)
        if online is not None:
            moved.append(Retarget(cluster=cluster, level=level, target=online, previous=source))
        elif others:
            kept.append(Kept(cluster=cluster, level=level, reason=f"{', '.join(others)}: offline"))
        else:
            kept.append(Kept(cluster=cluster, level=level, reason=f"{source} is the only leaf of its subtree"))
    return tuple(moved), tuple(kept)


def restored(targets: Targets, changed: Iterable[Retarget]) -> tuple[Retarget, ...]:
    """Return what restores the targets that a switch changed; targets changed again since then stay."""
    return tuple(
        replace(each, target=each.previous, previous=each.target)
        for each in changed
        if targets.get((each.cluster, each.level)) == each.target
    )
