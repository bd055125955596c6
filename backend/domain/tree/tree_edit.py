"""Edits of a tree, step by step, on its document: an unfinished draft may be invalid, with errors at its nodes.

A node is named by its place: `r` is the root, `r0` its left child, `r01` the right child of `r0`. A step names the
place at the moment of the step, so the same steps on the same tree always give the same result.

    begin:r:c1    start with a tree of one leaf   level:r0:3    set the level
    add:r0:c4     add a cluster beside a node     swap:r        swap left and right
    remove:r01    remove a node and its subtree   put:r00:c5    replace the cluster
    move:r00:r1   move a node beside another      room:r0       raise levels above as far as necessary
    primary:r:c2  choose the primary of the tree
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.records.copy_flags import HIGHEST_LEVEL, LOWEST_LEVEL

Document = dict[str, Any]
ROOT = "r"
MOST_STEPS = 300
_PLACE = re.compile(r"r[01]{0,31}")
_KINDS_WITHOUT_ARGUMENT = ("remove", "swap", "room")
_KINDS = ("begin", "add", "put", "primary", "level", "move", *_KINDS_WITHOUT_ARGUMENT)


@dataclass(frozen=True)
class Step:
    """One edit: its kind, the place of its node, and its argument (a cluster, a level, a place, or empty)."""

    kind: str
    place: str
    argument: str = ""

    def __str__(self) -> str:
        """Return the form that `read_steps` reads."""
        return f"{self.kind}:{self.place}:{self.argument}" if self.argument else f"{self.kind}:{self.place}"


@dataclass(frozen=True)
class Draft:
    """A tree that is being edited; `root` None means no tree yet, `primary` None means none chosen."""

    root: Document | None
    primary: str | None = None


def read_steps(text: str) -> tuple[Step, ...]:
    """Parse steps such as `add:r0:c4,swap:r`. Raises ValueInvalid."""
    parts = [part for part in text.split(",") if part]
    if len(parts) > MOST_STEPS:
        raise ValueInvalid(f"an edit has at most {MOST_STEPS} steps: save what is there, then go on")
    return tuple(map(_read, parts))


def write_steps(steps: Sequence[Step]) -> str:
    """Write steps in the form that `read_steps` reads."""
    return ",".join(map(str, steps))


def _read(text: str) -> Step:
    kind, _, rest = text.partition(":")
    place, _, argument = rest.partition(":")
    if kind not in _KINDS or not _PLACE.fullmatch(place) or bool(argument) == (kind in _KINDS_WITHOUT_ARGUMENT):
        raise ValueInvalid(f"{text[:60]!r} is no step of an edit")
    if kind == "level" and not re.fullmatch(r"-?[0-9]{1,3}", argument):
        raise ValueInvalid("a level is a whole number", (FieldError("/level", "must be a whole number"),))
    return Step(kind, place, argument)


def edited(draft: Draft, steps: Sequence[Step], clusters: int) -> Draft:
    """Apply steps to a draft; `clusters` is the number of clusters. Raises ValueInvalid if a step does not fit."""
    found = Draft(copy.deepcopy(draft.root), draft.primary)
    for number, step in enumerate(steps, 1):
        try:
            found = _apply(found, step, clusters)
        except _DoesNotFit as why:
            raise ValueInvalid(f"step {number} ({step}) does not fit: {why}") from why
    return found


class _DoesNotFit(Exception):
    """A step names a node that does not exist, or would have no effect."""


def _apply(draft: Draft, step: Step, clusters: int) -> Draft:
    if step.kind == "primary":
        return replace(draft, primary=step.argument)
    if step.kind == "begin":
        if draft.root is not None:
            raise _DoesNotFit("there is a tree already")
        return replace(draft, root={"cluster": step.argument})
    root = draft.root
    if root is None:
        raise _DoesNotFit("there is no tree yet")
    if step.kind == "add":
        return replace(draft, root=_beside(root, step.place, {"cluster": step.argument}, clusters))
    if step.kind == "move":
        return replace(draft, root=_moved(root, step, clusters))
    if step.kind == "remove":
        return replace(draft, root=_without(root, step.place))
    node = _at(root, step.place)
    _CHANGES[step.kind](root, node, step)
    return draft


def _set_level(_: Document, node: Document, step: Step) -> None:
    _inner(node)["level"] = int(step.argument)


def _swap(_: Document, node: Document, step: Step) -> None:
    _inner(node)["children"].reverse()


def _put(root: Document, node: Document, step: Step) -> None:
    if "cluster" not in node:
        raise _DoesNotFit("an inner node is no cluster")
    for _, other in walk(root):
        if other.get("cluster") == step.argument:
            other["cluster"] = node["cluster"]
    node["cluster"] = step.argument


def _make_room(root: Document, node: Document, step: Step) -> None:
    below = _level(node)
    for place in (step.place[:length] for length in range(len(step.place) - 1, 0, -1)):
        above = _at(root, place)
        above["level"] = max(_level(above), below + 1)
        below = above["level"]


_CHANGES: dict[str, Callable[[Document, Document, Step], None]] = {
    "level": _set_level,
    "swap": _swap,
    "put": _put,
    "room": _make_room,
}


def _moved(root: Document, step: Step, clusters: int) -> Document:
    place, to = step.place, step.argument
    if not _PLACE.fullmatch(to) or to.startswith(place):
        raise _DoesNotFit("a node cannot stand beside itself, or what is below it")
    node, beside = _at(root, place), _at(root, to)
    rest = _without(root, place)
    # The node's place may have changed; the node itself has not.
    found = next((where for where, each in walk(rest) if each is beside), None)
    if found is None:
        # The target was the node's own parent, and its other child has taken its place.
        found = next((where for where, each in walk(rest) if any(each is one for one in beside["children"])), ROOT)
    return _beside(rest, found, node, clusters)


def _without(root: Document, place: str) -> Document:
    node = _at(root, place)
    if place == ROOT:
        raise _DoesNotFit("nothing would be left")
    above = place[:-1]
    other = next(each for each in _at(root, above)["children"] if each is not node)
    return _replaced(root, above, other)


def _beside(root: Document, place: str, joining: Document, clusters: int) -> Document:
    node = _at(root, place)
    # A tree with more leaves than clusters can never be saved, and proving it wrong takes long.
    if len(clusters_of(root)) > clusters:
        raise _DoesNotFit(f"there are only {clusters} clusters")
    above = HIGHEST_LEVEL + 1 if place == ROOT else _level(_at(root, place[:-1]))
    lowest = max(_level(node), _level(joining)) + 1
    if place == ROOT:
        # The first inner node gets the highest level that the tree can ever need, to leave room below.
        level = lowest if "children" in node else min(HIGHEST_LEVEL, max(lowest, clusters - 1))
    else:
        level = lowest if "children" in node else max(lowest, above - 1)
    return _replaced(root, place, {"level": min(level, HIGHEST_LEVEL), "children": [node, joining]})


def _replaced(root: Document, place: str, by: Document) -> Document:
    if place == ROOT:
        return by
    _at(root, place[:-1])["children"][int(place[-1])] = by
    return root


def _at(root: Document, place: str) -> Document:
    node = root
    for side in place[1:]:
        if "children" not in node:
            raise _DoesNotFit(f"there is no node {place}")
        node = node["children"][int(side)]
    return node


def _inner(node: Document) -> Document:
    if "children" not in node:
        raise _DoesNotFit("a cluster has no level and no sides")
    return node


def _level(node: Document) -> int:
    """Return the level of a node; 0 for a leaf."""
    return int(node.get("level", LOWEST_LEVEL - 1))


def walk(root: Document, place: str = ROOT) -> Iterator[tuple[str, Document]]:
    """Yield every node with its place, parents before children, left before right."""
    yield place, root
    for side, child in enumerate(root.get("children", ())):
        yield from walk(child, f"{place}{side}")


def clusters_of(root: Document) -> tuple[str, ...]:
    """Return the clusters of the leaves, from left to right."""
    return tuple(node["cluster"] for _, node in walk(root) if "cluster" in node)


def place_of(pointer: str) -> str:
    """Return the place of the node that a JSON pointer into the document names or lies in."""
    return ROOT + "".join(re.findall(r"/children/([01])", pointer))
