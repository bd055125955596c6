"""Groups of partitions that are placed together.

A group is a single partition, or all partitions with the same replication factor and replicas in the same racks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from backend.placement.load_levels import Bounds
from backend.placement.problem import GONE, Bools, Brokers, Ints, Problem, Replicas

_BYTES_STEPS = 8
_PREFERRED = _BYTES_STEPS + 1
"""Value of keeping a preferred replica; more than that of any number of bytes."""


@dataclass(frozen=True)
class Groups:
    """Groups of partitions and their holdings on usable brokers; arrays by group or by holding.

    A holding is what one broker has of one group, preferred replicas and others apart.
    """

    size: Ints
    """Number of partitions in each group."""
    factor: Ints
    """Requested replication factor of each group's partitions."""
    held_by: Ints
    """Group of each holding."""
    holder: Ints
    """Broker of each holding."""
    preferred: Bools
    """True for a holding of preferred replicas."""
    held: Ints
    """Number of replicas in each holding."""
    worth: Ints
    """Value of keeping a replica of the holding rather than another one."""
    steady: Ints
    """Number of replicas of the holding whose keeping has an additional value of one.

    That makes all holdings of a broker give up an equal share. If one gave up everything, brokers that lead those
    partitions would have no candidates left to hand leadership over to.
    """

    @property
    def by_factor(self) -> Ints:
        """Return the number of partitions by replication factor."""
        return np.bincount(self.factor, self.size, minlength=1).astype(np.int64)

    def sharing(self, bounds: Bounds) -> Bools:
        """Tell by group and rack whether several partitions may have several replicas there."""
        return np.asarray((bounds.most[self.factor] > 1) & (self.size > 1)[:, None], bool)

    def have_several(self, brokers: Brokers, bounds: Bounds) -> Bools:
        """Tell by group and rack whether several partitions may have several replicas there, or have too many."""
        racks = len(brokers.racks)
        at = self.held_by * racks + brokers.rack_of[self.holder]
        held = np.bincount(at, self.held, len(self.size) * racks).reshape(-1, racks)
        crowded = held > self.size[:, None] * bounds.most[self.factor]
        return np.asarray((crowded & (self.size > 1)[:, None]) | self.sharing(bounds), bool)

    def steadied(self, brokers: Brokers, several: Bools, kept: Ints) -> Groups:
        """Return the groups with `steady` set so that holdings of a group in a rack give up equal shares.

        That is done where `several` is set, for preferred and other replicas apart; `kept` is the number of
        replicas that stay by any choice.
        """
        racks = len(brokers.racks)
        rack = brokers.rack_of[self.holder]
        at = 2 * (self.held_by * racks + rack) + self.preferred
        part = np.bincount(at, kept) / np.maximum(np.bincount(at, self.held), 1)
        even = np.floor(self.held * part[at]).astype(np.int64)
        return replace(self, steady=np.where(several[self.held_by, rack], even, self.steady))

    def has_been_in(self, brokers: Brokers) -> Bools:
        """Tell by group and rack whether the group's partitions have replicas there."""
        found = np.zeros((len(self.size), len(brokers.racks)), dtype=bool)
        found[self.held_by, brokers.rack_of[self.holder]] = True
        return found


@dataclass(frozen=True)
class Grouped:
    """The partitions of a problem with their groups."""

    group_of: Ints
    """The group of each partition."""
    groups: Groups


def alone(some: Problem) -> Grouped:
    """Put each partition in a group of its own."""
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
    """Map sizes to a few steps by rank."""
    order = np.unique(sizes, return_inverse=True)[1].astype(np.int64)
    return order * _BYTES_STEPS // max(1, int(order.max(initial=0)))


def together(some: Problem, partitions: Ints, bounds: Bounds, *, apart: bool = True) -> Grouped:
    """Group partitions by the rows of `kinds_of`."""
    kinds = kinds_of(some, partitions, bounds, apart=apart)
    kinds, group_of, sizes = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    group_of = group_of.ravel().astype(np.int64)
    holdings, held = holdings_of(some, group_of)
    return Grouped(group_of, groups_of(some, kinds, sizes, holdings, held, some.loads(some.now)))


def kinds_of(some: Problem, partitions: Ints, bounds: Bounds, *, apart: bool) -> Ints:
    """Return a row for each partition that is equal for all partitions of one group.

    Its columns are the replication factor, the replicas in each rack, those on no usable broker, and -1. With
    `apart`, a partition with more replicas in a rack than allowed has its own number, from `partitions`, in the
    last column.
    """
    kinds = np.column_stack([some.wanted, in_racks(some, some.now), np.full(len(some.now), -1)])
    if apart:
        crowded = is_crowded(kinds, bounds)
        kinds[crowded, -1] = partitions[crowded]
    return kinds


def is_crowded(kinds: Ints, bounds: Bounds) -> Bools:
    """Tell which kinds have more replicas in a rack than allowed."""
    return np.asarray((kinds[:, 1:-2] > bounds.most[kinds[:, 0]]).any(axis=1), bool)


def holdings_of(some: Problem, group_of: Ints) -> tuple[Ints, Ints]:
    """Count the holdings of groups, as (keys, number of replicas); keys are those of `holding_keys`."""
    stays = some.is_usable[some.now.brokers]
    owners, brokers = some.now.owners[stays], some.now.brokers[stays]
    at = holding_keys(some, group_of[owners], brokers, is_first(some.now)[stays])
    keys, held = np.unique(at, return_counts=True)
    return keys, held.astype(np.int64)


def holding_keys(brokers: Brokers, groups: Ints, holders: Ints, preferred: Bools) -> Ints:
    """Return a number for each holding: twice that of group and broker, one more for preferred replicas."""
    keys: Ints = 2 * (groups * len(brokers.broker_ids) + holders) + preferred
    return keys


def holdings_at(brokers: Brokers, groups: Groups, group: Ints, holders: Ints, preferred: Bools) -> Ints:
    """Return the row of the groups' holdings that each replica belongs to; all must be on usable brokers."""
    keys = holding_keys(brokers, groups.held_by, groups.holder, groups.preferred)
    order = np.argsort(keys)
    found: Ints = order[np.searchsorted(keys[order], holding_keys(brokers, group, holders, preferred))]
    return found


def groups_of(brokers: Brokers, kinds: Ints, sizes: Ints, holdings: Ints, held: Ints, loads: Ints) -> Groups:
    """Build groups from counted kinds and holdings, both sorted; `loads` are the brokers' present replicas."""
    total = len(brokers.broker_ids)
    holders = holdings // 2 % total
    # Each holding gives up the same share of what its broker has above the average.
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
    """Count replicas by partition and rack; the last column counts those on lost or excluded brokers."""
    racks = len(brokers.racks)
    where = np.where(brokers.may_hold, brokers.rack_of, GONE)[replicas.brokers]
    at = replicas.owners * (racks + 1) + np.where(where == GONE, racks, where)
    return np.bincount(at, minlength=len(replicas) * (racks + 1)).reshape(-1, racks + 1).astype(np.int64)


def is_first(replicas: Replicas) -> Bools:
    """Tell for each replica whether it is the preferred one of its partition."""
    found: Bools = np.arange(len(replicas.brokers)) == np.repeat(replicas.starts[:-1], replicas.counts)
    return found
