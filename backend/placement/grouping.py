"""Partitions that are placed together: each alone, or all of a replication factor whose replicas are in the same
racks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from backend.placement.problem import GONE, Bools, Brokers, Ints, Problem, Replicas
from backend.placement.shares import Bounds

_BYTES_STEPS = 8
_PREFERRED = _BYTES_STEPS + 1
"""What it is worth that a preferred replica stays; more than any number of bytes."""


@dataclass(frozen=True)
class Groups:
    """Groups of partitions, and what they hold on brokers that may hold replicas; arrays by group, or by
    holding."""

    size: Ints
    """Partitions of each group."""
    factor: Ints
    """Replicas that each of its partitions is to have."""
    held_by: Ints
    """Of each holding, a broker that has replicas of a group: the group,"""
    holder: Ints
    """the broker,"""
    preferred: Bools
    """whether these are preferred ones, for the others are a holding of their own,"""
    held: Ints
    """how many there are,"""
    worth: Ints
    """what it is worth that one of them stays rather than another,"""
    steady: Ints
    """and for how many of them it is worth one more: so that all holdings of a broker give up their share. If one
    gave all, brokers that lead what is there would lose what they could hand over to those that get it."""

    @property
    def by_factor(self) -> Ints:
        """Partitions by replication factor."""
        return np.bincount(self.factor, self.size, minlength=1).astype(np.int64)

    def sharing(self, bounds: Bounds) -> Bools:
        """By group and rack: whether there are several partitions that may have several replicas there."""
        return np.asarray((bounds.most[self.factor] > 1) & (self.size > 1)[:, None], bool)

    def have_several(self, brokers: Brokers, bounds: Bounds) -> Bools:
        """By group and rack: whether there are several partitions that may have several replicas there, or have
        too many."""
        racks = len(brokers.racks)
        at = self.held_by * racks + brokers.rack_of[self.holder]
        held = np.bincount(at, self.held, len(self.size) * racks).reshape(-1, racks)
        crowded = held > self.size[:, None] * bounds.most[self.factor]
        return np.asarray((crowded & (self.size > 1)[:, None]) | self.sharing(bounds), bool)

    def steadied(self, brokers: Brokers, several: Bools, kept: Ints) -> Groups:
        """With the same part of each holding of a group in a rack to stay rather than more of one and less of
        another, where partitions have several (preferred ones apart); `kept`: how many stay, by any choice."""
        racks = len(brokers.racks)
        rack = brokers.rack_of[self.holder]
        at = 2 * (self.held_by * racks + rack) + self.preferred
        part = np.bincount(at, kept) / np.maximum(np.bincount(at, self.held), 1)
        even = np.floor(self.held * part[at]).astype(np.int64)
        return replace(self, steady=np.where(several[self.held_by, rack], even, self.steady))

    def has_been_in(self, brokers: Brokers) -> Bools:
        """By group and rack: whether its partitions have replicas there."""
        found = np.zeros((len(self.size), len(brokers.racks)), dtype=bool)
        found[self.held_by, brokers.rack_of[self.holder]] = True
        return found


@dataclass(frozen=True)
class Grouped:
    """The partitions of a question in groups."""

    group_of: Ints
    """Of each partition."""
    groups: Groups


def alone(some: Problem) -> Grouped:
    """Each partition by itself."""
    owners, brokers = some.now.owners, some.now.brokers
    stays = some.is_usable[brokers]
    first = is_first(some.now)
    worth = _PREFERRED * first + by_bytes(some.size_bytes)[owners]
    count = len(some.now)
    groups = Groups(
        np.ones(count, dtype=np.int64),
        some.wanted,
        owners[stays],
        brokers[stays],
        first[stays],
        np.ones(int(stays.sum()), dtype=np.int64),
        worth[stays].astype(np.int64),
        np.zeros(int(stays.sum()), dtype=np.int64),
    )
    return Grouped(np.arange(count, dtype=np.int64), groups)


def by_bytes(sizes: Ints) -> Ints:
    """Sizes as a few steps, by their rank."""
    order = np.unique(sizes, return_inverse=True)[1].astype(np.int64)
    return order * _BYTES_STEPS // max(1, int(order.max(initial=0)))


def together(some: Problem, partitions: Ints, bounds: Bounds, *, apart: bool = True) -> Grouped:
    """By racks, as `kinds_of` tells."""
    kinds = kinds_of(some, partitions, bounds, apart=apart)
    kinds, group_of, sizes = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    group_of = group_of.ravel().astype(np.int64)
    holdings, held = holdings_of(some, group_of)
    return Grouped(group_of, groups_of(some, kinds, sizes, holdings, held, some.loads(some.now)))


def kinds_of(some: Problem, partitions: Ints, bounds: Bounds, *, apart: bool) -> Ints:
    """A row for each partition, the same for those that are one group: replication factor, replicas in each rack
    and on no usable broker, and -1; or a number of its own if it is to be told `apart` where it has more in a rack
    than it may. `partitions`: the number of each."""
    kinds = np.column_stack([some.wanted, in_racks(some, some.now), np.full(len(some.now), -1)])
    if apart:
        crowded = is_crowded(kinds, bounds)
        kinds[crowded, -1] = partitions[crowded]
    return kinds


def is_crowded(kinds: Ints, bounds: Bounds) -> Bools:
    """Whether partitions of these kinds have more in a rack than they may."""
    return np.asarray((kinds[:, 1:-2] > bounds.most[kinds[:, 0]]).any(axis=1), bool)


def holdings_of(some: Problem, group_of: Ints) -> tuple[Ints, Ints]:
    """What groups hold: (twice the number of group and broker, one more where they are preferred ones; how many
    they are)."""
    stays = some.is_usable[some.now.brokers]
    owners, brokers = some.now.owners[stays], some.now.brokers[stays]
    at = holding_keys(some, group_of[owners], brokers, is_first(some.now)[stays])
    keys, held = np.unique(at, return_counts=True)
    return keys, held.astype(np.int64)


def holding_keys(brokers: Brokers, groups: Ints, holders: Ints, preferred: Bools) -> Ints:
    """A number for each holding."""
    keys: Ints = 2 * (groups * len(brokers.broker_ids) + holders) + preferred
    return keys


def holdings_at(brokers: Brokers, groups: Groups, group: Ints, holders: Ints, preferred: Bools) -> Ints:
    """Of replicas, which row of the groups' holdings each belongs to; all are on brokers that may hold some."""
    keys = holding_keys(brokers, groups.held_by, groups.holder, groups.preferred)
    order = np.argsort(keys)
    found: Ints = order[np.searchsorted(keys[order], holding_keys(brokers, group, holders, preferred))]
    return found


def groups_of(brokers: Brokers, kinds: Ints, sizes: Ints, holdings: Ints, held: Ints, loads: Ints) -> Groups:
    """From what was counted; `kinds` and `holdings` in order, `loads`: what brokers have of all of them now."""
    total = len(brokers.broker_ids)
    holders = holdings // 2 % total
    # Of what a broker has more than is even, each holding gives up the same share.
    even = int(loads.sum()) / max(1, int(brokers.rack_sizes.sum()))
    staying = np.minimum(1.0, even / np.maximum(loads, 1))[holders]
    return Groups(
        sizes.astype(np.int64),
        kinds[:, 0],
        holdings // 2 // total,
        holders,
        holdings % 2 == 1,
        held,
        holdings % 2 * 2,
        np.ceil(held * staying).astype(np.int64),
    )


def in_racks(brokers: Brokers, replicas: Replicas) -> Ints:
    """By partition and rack, how many replicas are there; the last column has those on brokers that are gone, or
    may hold none."""
    racks = len(brokers.racks)
    where = np.where(brokers.may_hold, brokers.rack_of, GONE)[replicas.brokers]
    at = replicas.owners * (racks + 1) + np.where(where == GONE, racks, where)
    return np.bincount(at, minlength=len(replicas) * (racks + 1)).reshape(-1, racks + 1).astype(np.int64)


def is_first(replicas: Replicas) -> Bools:
    """Of each replica, whether it is its partition's preferred one."""
    found: Bools = np.arange(len(replicas.brokers)) == np.repeat(replicas.starts[:-1], replicas.counts)
    return found
