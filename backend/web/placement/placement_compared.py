"""Comparison of a plan with its input: brokers before and after, and the partitions that change.

It computes on arrays alone, since a cluster may have a million replicas. Brokers are in the order of the pages: by
rack, within a rack unchanged ones before new and emptied ones, and lost ones last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Place = tuple[str, int]

STAYS, NEW, EMPTIED, EMPTY, GONE = "", "new", "emptied", "empty", "gone"
"""The kind of a broker: it holds replicas before and after, only after, only before, or never; or it is lost."""
_ORDER = (STAYS, EMPTY, NEW, EMPTIED, GONE)
NO_RACK = "no rack"


@dataclass(frozen=True)
class Spread:
    """The places of replicas before or after the plan, one entry per replica."""

    owners: Ints
    """Partition of each replica, as an index into `Compared.places`."""
    brokers: Ints
    """Broker of each replica, as an index into `Compared.brokers`."""
    leads: Bools
    """Mask of the preferred replicas."""
    moves: Bools
    """Mask of the replicas whose broker has none of the partition on the other side of the comparison."""


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A broker before and after the plan."""

    id: int
    rack: str
    kind: str
    replicas: int
    replicas_after: int
    leaders: int
    leaders_after: int
    leaving: int
    arriving: int

    @property
    def changes(self) -> int:
        """Return how much changes: replicas that leave or arrive, and the difference in leaders."""
        return self.leaving + self.arriving + abs(self.leaders_after - self.leaders)


@dataclass(frozen=True)
class Change:
    """A partition whose replicas, or their order, change."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def moves(self) -> int:
        return len(set(self.after) - set(self.before))

    @property
    def leader_changes(self) -> bool:
        return self.before[:1] != self.after[:1]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A cluster before and after a plan, in full."""

    places: Sequence[Place]
    """Topic and number of each partition, in order."""
    brokers: Sequence[Broker]
    before: Spread
    after: Spread
    changed: Sequence[Change]


def compare(question: Mapping[str, Any], plan: Mapping[str, Any]) -> Compared:
    """Compare the documents of a placement, as `queries.placement.placements.read_documents` returns them."""
    before, after = (
        {(row["topic"], row["partition"]): row["replicas"] for row in document["partitions"]}
        for document in (question, plan)
    )
    places = sorted(after)
    lists = [before[place] for place in places], [after[place] for place in places]
    racks = {each["id"]: each.get("rack") or NO_RACK for each in question["brokers"]}
    ids = np.array(
        sorted({*racks, *chain.from_iterable(lists[0]), *chain.from_iterable(lists[1])}), dtype=np.int64
    )
    now, then = (_spread(each, ids) for each in lists)
    keys = [each.owners * len(ids) + each.brokers for each in (now, then)]
    now_moves, then_moves = ~np.isin(keys[0], keys[1]), ~np.isin(keys[1], keys[0])
    rows = _brokers(ids, racks, _with(now, now_moves), _with(then, then_moves))
    order = sorted(range(len(rows)), key=lambda at: _sort_key(rows[at]))
    # Map each broker's index by id to its index in the list.
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return Compared(
        places=places,
        brokers=[rows[at] for at in order],
        before=Spread(now.owners, position[now.brokers], now.leads, now_moves),
        after=Spread(then.owners, position[then.brokers], then.leads, then_moves),
        changed=[
            Change(topic, number, tuple(was), tuple(then))
            for (topic, number), was, then in zip(places, *lists, strict=True)
            if was != then
        ],
    )


def _spread(lists: Sequence[Sequence[int]], ids: Ints) -> Spread:
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    total = int(counts.sum())
    named = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=total)
    leads = np.zeros(total, dtype=np.bool_)
    leads[(np.cumsum(counts) - counts)[counts > 0]] = True
    owners = np.repeat(np.arange(len(lists)), counts)
    return Spread(owners, np.searchsorted(ids, named), leads, np.zeros(total, dtype=np.bool_))


def _with(spread: Spread, moves: Bools) -> Spread:
    return Spread(spread.owners, spread.brokers, spread.leads, moves)


def _brokers(ids: Ints, racks: Mapping[int, str], now: Spread, then: Spread) -> list[Broker]:
    def counted(spread: Spread, some: Bools | None = None) -> list[int]:
        chosen = spread.brokers if some is None else spread.brokers[some]
        found: list[int] = np.bincount(chosen, minlength=len(ids)).tolist()
        return found

    columns = zip(
        ids.tolist(),
        *(counted(now), counted(then)),
        *(counted(now, now.leads), counted(then, then.leads)),
        *(counted(now, now.moves), counted(then, then.moves)),
        strict=True,
    )
    return [
        Broker(
            id=broker,
            rack=racks.get(broker, GONE),
            kind=_kind(broker in racks, replicas, after),
            replicas=replicas,
            replicas_after=after,
            leaders=leaders,
            leaders_after=leaders_after,
            leaving=leaving,
            arriving=arriving,
        )
        for broker, replicas, after, leaders, leaders_after, leaving, arriving in columns
    ]


def _kind(is_there: bool, before: int, after: int) -> str:
    if not is_there:
        return GONE
    if before and after:
        return STAYS
    return EMPTIED if before else NEW if after else EMPTY


def _sort_key(broker: Broker) -> tuple[bool, str, int, int]:
    return (broker.kind == GONE, broker.rack, _ORDER.index(broker.kind), broker.id)
