"""Effect of a new tree: distributors that start, stop or change targets, leaves that wait, logs to read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.distribution import leaf_routes
from backend.domain.distribution.leaf_routes import Distributor, Inbound
from backend.domain.tree import tree_shape
from backend.domain.tree.tree_shape import Node
from backend.web.forms.effect import listed
from backend.web.words.figures import counted

Shape = tuple[Node, Mapping[Distributor, str]]
"""(Root of a tree, its targets)."""


@dataclass(frozen=True)
class TreeDifference:
    """Differences of two trees, in words."""

    joining: tuple[str, ...]
    leaving: tuple[str, ...]
    begin: tuple[str, ...]
    end: tuple[str, ...]
    move: tuple[str, ...]
    stay: int
    read_again: tuple[str, ...]
    barriers: tuple[str, ...]

    @property
    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the (heading, lines) that are not empty."""
        found = (
            ("Distributors that start", self.begin),
            ("Distributors that change targets", self.move),
            ("Distributors that stop", self.end),
            ("Logs that are read again", self.read_again),
        )
        return tuple((f"{heading} ({len(lines)})", lines) for heading, lines in found if lines)

    @property
    def sentence(self) -> str:
        """Return a summary in one sentence."""
        parts = []
        if self.joining:
            parts.append(f"{listed(self.joining)} {'joins' if len(self.joining) == 1 else 'join'}")
        if self.leaving:
            parts.append(f"{listed(self.leaving)} {'leaves' if len(self.leaving) == 1 else 'leave'}")
        for lines, verb in ((self.begin, "start"), (self.move, "move"), (self.end, "stop")):
            if lines:
                parts.append(f"{counted(len(lines), 'distributor')} {verb if len(lines) > 1 else verb + 's'}")
        parts.append("1 stays unchanged" if self.stay == 1 else f"{self.stay} stay unchanged")
        return f"Once it is set: {'; '.join(parts)}."


def difference(before: Shape | None, after: Shape) -> TreeDifference:
    """Return the differences from one tree (None: there was none) to another."""
    was: Mapping[Distributor, str] = {} if before is None else before[1]
    will = after[1]
    old_names = () if before is None else tree_shape.leaves(before[0])
    new_names = tree_shape.leaves(after[0])
    old_inbound = {} if before is None else leaf_routes.inbound(*before)
    new_inbound = leaf_routes.inbound(*after)
    changed = [leaf for leaf in new_names if old_inbound.get(leaf, {}) != new_inbound[leaf]]
    return TreeDifference(
        joining=tuple(name for name in new_names if name not in old_names),
        leaving=tuple(name for name in old_names if name not in new_names),
        begin=tuple(f"{_named(key)} → {target}" for key, target in _sorted(will) if key not in was),
        end=tuple(f"{_named(key)} → {target}" for key, target in _sorted(was) if key not in will),
        move=tuple(
            f"{_named(key)} → {target} instead of {was[key]}"
            for key, target in _sorted(will)
            if key in was and was[key] != target
        ),
        stay=sum(was.get(key) == target for key, target in will.items()),
        read_again=tuple(
            line
            for leaf in changed
            for line in _read_again(leaf, old_inbound.get(leaf, {}), new_inbound[leaf], leaf not in old_names)
        ),
        barriers=tuple(leaf for leaf in changed if leaf in old_names),
    )


def _read_again(leaf: str, before: Inbound, after: Inbound, is_new: bool) -> list[str]:
    """Return the edges into a leaf that carry an origin which they did not carry before."""
    found = []
    for edge, origins in sorted(after.items()):
        news = sorted(origins.keys() - before.get(edge, {}).keys())
        if not news:
            continue
        whose = f"records of {listed(news)}"
        if is_new:
            found.append(f"{edge[0]}'s log from its beginning, for {leaf}, which is still empty: {whose}")
        else:
            found.append(f"{edge[0]}'s log from the first record that {leaf} may lack: {whose}")
    return found


def _sorted(targets: Mapping[Distributor, str]) -> list[tuple[Distributor, str]]:
    return sorted(targets.items())


def _named(key: Distributor) -> str:
    return f"{key[0]}:{key[1]}"
