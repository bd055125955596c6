"""A plan against what it was made from: per broker before and after, and the partitions that change.

Pure, on arrays: a cluster may have a million replicas. Brokers are in the order in which pages list them: by rack,
in each those that stay before those that are new or emptied, those that are gone last.
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
"""What becomes of a broker: it holds replicas before and after, only after, only before, never; it is away."""
_ORDER = (STAYS, EMPTY, NEW, EMPTIED, GONE)
NO_RACK = "no rack"


@dataclass(frozen=True)
class Spread:
    """Where replicas are at one time, one entry for each."""

    owners: Ints
    """Its partition, as a place in `Compared.places`."""
    brokers: Ints
    """Its broker, as a place in `Compared.brokers`."""
    leads: Bools
    """Whether it is its partition's preferred one."""
    moves: Bools
    """Whether its broker has none of its partition at the other time."""


@dataclass(frozen=True, kw_only=True)
class Broker:
    """A broker before and after."""

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
        """How much is done to it: replicas that leave or arrive, and leaders more or less."""
        return self.leaving + self.arriving + abs(self.leaders_after - self.leaders)


@dataclass(frozen=True)
class Change:
    """A partition whose replicas, or their order, are other ones afterwards."""

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
    """Both, in full."""

    places: Sequence[Place]
    """Topic and number of each partition, in order."""
    brokers: Sequence[Broker]
    before: Spread
    after: Spread
    changed: Sequence[Change]


def compare(question: Mapping[str, Any], plan: Mapping[str, Any]) -> Compared:
    """The documents of a placement, as `backend.queries.placement.placements.read_documents` gives them."""
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
    order = sorted(range(len(rows)), key=lambda at: _turn(rows[at]))
    # Where each broker went: from its place by id to that in the list.
    turned = np.empty(len(order), dtype=np.int64)
    turned[order] = np.arange(len(order))
    return Compared(
        places=places,
        brokers=[rows[at] for at in order],
        before=Spread(now.owners, turned[now.brokers], now.leads, now_moves),
        after=Spread(then.owners, turned[then.brokers], then.leads, then_moves),
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


def _turn(broker: Broker) -> tuple[bool, str, int, int]:
    return (broker.kind == GONE, broker.rack, _ORDER.index(broker.kind), broker.id)
