"""The input of the solver: brokers and their racks, partitions and their present replicas.

All data are arrays, since a large cluster has a million replicas: brokers and racks are identified by their index
here, and by their id and name outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GONE = -1
"""Rack of an unknown broker: it may still hold replicas, and gets no new ones."""


@dataclass(frozen=True)
class Replicas:
    """Brokers of each partition `p`, preferred replica first: `brokers[starts[p]:starts[p + 1]]`."""

    starts: Ints
    brokers: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Ints:
        """Return the number of replicas of each partition."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """Return the partition of each replica."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    @property
    def firsts(self) -> Ints:
        """Return the preferred replica of each partition; -1 for a partition without replicas."""
        found = np.full(len(self), -1, dtype=np.int64)
        some = self.counts > 0
        found[some] = self.brokers[self.starts[:-1][some]]
        return found

    def of(self, partition: int) -> Ints:
        """Return the brokers of one partition."""
        return self.brokers[self.starts[partition] : self.starts[partition + 1]]

    def some(self, partitions: Ints) -> Replicas:
        """Return the replicas of some partitions, in that order."""
        counts = self.counts[partitions]
        starts = starts_of(counts)
        at = np.repeat(self.starts[partitions] - starts[:-1], counts) + np.arange(starts[-1])
        return Replicas(starts, self.brokers[at])

    def replaced(self, partitions: Ints, new: Replicas) -> Replicas:
        """Return a copy in which some partitions have the replicas in `new`."""
        counts = self.counts.copy()
        counts[partitions] = new.counts
        starts = starts_of(counts)
        brokers = np.zeros(starts[-1], dtype=np.int64)
        stays = np.ones(len(self), dtype=bool)
        stays[partitions] = False
        others = np.flatnonzero(stays)
        for who, what in ((others, self.some(others)), (partitions, new)):
            shift = np.repeat(starts[:-1][who] - what.starts[:-1], what.counts)
            brokers[np.arange(len(what.brokers)) + shift] = what.brokers
        return Replicas(starts, brokers)

    @staticmethod
    def listed(rows: Sequence[Sequence[int]]) -> Replicas:
        """Build replicas from a list of brokers for each partition."""
        counts = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        brokers = np.fromiter((broker for row in rows for broker in row), np.int64, int(counts.sum()))
        return Replicas(starts_of(counts), brokers)


def starts_of(counts: Ints) -> Ints:
    """Return the offsets of consecutive runs with these lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def nth(values: Ints) -> Ints:
    """Number equal values in order of appearance: 0, 1, ... for each value."""
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return found


@dataclass(frozen=True)
class Brokers:
    """The brokers of a cluster, including unknown ones that only occur because they hold replicas."""

    broker_ids: Ints
    rack_of: Ints
    """Rack of each broker; GONE for an unknown one."""
    racks: tuple[str, ...]
    may_hold: Bools
    """Mask of the brokers that may hold replicas in the plan."""
    may_lead: Bools
    """Mask of the brokers that may hold preferred replicas in the plan."""

    @property
    def is_usable(self) -> Bools:
        """Return the mask of the known brokers that may hold replicas."""
        usable: Bools = self.may_hold & (self.rack_of != GONE)
        return usable

    @property
    def rack_sizes(self) -> Ints:
        """Return the number of usable brokers in each rack."""
        return np.bincount(self.rack_of[self.is_usable], minlength=len(self.racks)).astype(np.int64)

    def loads(self, replicas: Replicas) -> Ints:
        """Return the number of replicas on each broker."""
        return np.bincount(replicas.brokers, minlength=len(self.broker_ids)).astype(np.int64)

    def leads(self, replicas: Replicas) -> Ints:
        """Return the number of preferred replicas on each broker."""
        firsts = replicas.firsts
        return np.bincount(firsts[firsts >= 0], minlength=len(self.broker_ids)).astype(np.int64)


@dataclass(frozen=True)
class Problem(Brokers):
    """The cluster and what is requested of it; `now` holds the present replicas."""

    topics: tuple[str, ...]
    topic_of: Ints
    """Topic of each partition, as an index into `topics`."""
    numbers: Ints
    """Number of each partition within its topic."""
    now: Replicas
    wanted: Ints
    """Requested replication factor of each partition."""
    size_bytes: Ints
    """Size of one replica of each partition."""
    is_fixed: Bools
    """Mask of the partitions that must stay as they are, whatever that costs."""

    def some(self, partitions: Ints) -> Problem:
        """Return the problem restricted to some partitions, in that order."""
        return replace(
            self,
            topic_of=self.topic_of[partitions],
            numbers=self.numbers[partitions],
            now=self.now.some(partitions),
            wanted=self.wanted[partitions],
            size_bytes=self.size_bytes[partitions],
            is_fixed=self.is_fixed[partitions],
        )

    def names(self, partitions: Ints) -> list[str]:
        """Return the names of these partitions, as topic-number."""
        return [f"{self.topics[self.topic_of[p]]}-{self.numbers[p]}" for p in partitions.tolist()]
