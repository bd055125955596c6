"""What a placement is asked for: brokers and their racks, partitions and where their replicas are now.

Arrays throughout, since a large cluster has a million replicas: brokers and racks are told by their index here, by
their id and name outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GONE = -1
"""Rack of a broker that nobody knows: it may hold replicas still, and gets none."""


@dataclass(frozen=True)
class Replicas:
    """Brokers of each partition, the preferred one first: those of `p` are `brokers[starts[p]:starts[p + 1]]`."""

    starts: Ints
    brokers: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Ints:
        """Replicas of each partition."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """The partition of each replica."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    @property
    def firsts(self) -> Ints:
        """The preferred replica of each partition; -1 where there is none."""
        found = np.full(len(self), -1, dtype=np.int64)
        some = self.counts > 0
        found[some] = self.brokers[self.starts[:-1][some]]
        return found

    def of(self, partition: int) -> Ints:
        """Those of one partition."""
        return self.brokers[self.starts[partition] : self.starts[partition + 1]]

    def some(self, partitions: Ints) -> Replicas:
        """Those of some partitions, in that order."""
        counts = self.counts[partitions]
        starts = starts_of(counts)
        at = np.repeat(self.starts[partitions] - starts[:-1], counts) + np.arange(starts[-1])
        return Replicas(starts, self.brokers[at])

    def replaced(self, partitions: Ints, new: Replicas) -> Replicas:
        """With those of some partitions being others."""
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
        """From a list of brokers for each partition."""
        counts = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        brokers = np.fromiter((broker for row in rows for broker in row), np.int64, int(counts.sum()))
        return Replicas(starts_of(counts), brokers)


def starts_of(counts: Ints) -> Ints:
    """Where each of several runs of these lengths begins, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def nth(values: Ints) -> Ints:
    """Which one of its equals each is, in the order they come in: 0, 1, ..."""
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return found


@dataclass(frozen=True)
class Brokers:
    """Those that there are, also ones that nobody knows but by the replicas they hold."""

    broker_ids: Ints
    rack_of: Ints
    """By broker; GONE for one that is not known."""
    racks: tuple[str, ...]
    may_hold: Bools
    """By broker: whether it may have replicas afterwards."""
    may_lead: Bools
    """By broker: whether it may have preferred replicas afterwards."""

    @property
    def is_usable(self) -> Bools:
        """By broker: whether it is there, and may hold replicas."""
        usable: Bools = self.may_hold & (self.rack_of != GONE)
        return usable

    @property
    def rack_sizes(self) -> Ints:
        """Brokers of each rack that may hold replicas."""
        return np.bincount(self.rack_of[self.is_usable], minlength=len(self.racks)).astype(np.int64)

    def loads(self, replicas: Replicas) -> Ints:
        """Replicas on each broker."""
        return np.bincount(replicas.brokers, minlength=len(self.broker_ids)).astype(np.int64)

    def leads(self, replicas: Replicas) -> Ints:
        """Preferred replicas on each broker."""
        firsts = replicas.firsts
        return np.bincount(firsts[firsts >= 0], minlength=len(self.broker_ids)).astype(np.int64)


@dataclass(frozen=True)
class Problem(Brokers):
    """What is asked for; `now` are the replicas as they are."""

    topics: tuple[str, ...]
    topic_of: Ints
    """By partition."""
    numbers: Ints
    """By partition: its number within the topic."""
    now: Replicas
    wanted: Ints
    """By partition: how many replicas it is to have."""
    size_bytes: Ints
    """By partition."""
    is_fixed: Bools
    """By partition: whether it stays as it is, whatever that costs."""

    def some(self, partitions: Ints) -> Problem:
        """The question of some partitions, in that order."""
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
        """Of these partitions, as topic-number."""
        return [f"{self.topics[self.topic_of[p]]}-{self.numbers[p]}" for p in partitions.tolist()]
