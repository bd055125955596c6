"""Partitions that are placed together: each alone, or all of a replication factor whose replicas are in the same
racks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.problem import GONE, Bools, Ints, Problem, Replicas
from backend.placement.shares import Bounds

_BYTES_STEPS = 8
_PREFERRED = _BYTES_STEPS + 1
"""What it is worth that a preferred replica stays; more than any number of bytes."""


@dataclass(frozen=True)
class Groups:
    """Groups of partitions, and what they hold on brokers that may hold replicas; arrays by group, or by
    holding."""

    partitions: Ints
    group_of: Ints
    """Of each of `partitions`."""
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

    def is_pooled(self, bounds: Bounds) -> Bools:
        """By group and rack: whether it does not matter which broker of the rack gets what is new there."""
        pooled: Bools = (bounds.most[self.factor] == 1) | (self.size > 1)[:, None]
        return pooled


def alone(problem: Problem, partitions: Ints) -> Groups:
    """Each of the partitions by itself."""
    now = problem.now.some(partitions)
    owners = now.owners
    stays = problem.is_usable[now.brokers]
    worth = _PREFERRED * is_first(now) + _by_bytes(problem.size_bytes[partitions])[owners]
    count = len(partitions)
    return Groups(
        partitions,
        np.arange(count, dtype=np.int64),
        np.ones(count, dtype=np.int64),
        problem.wanted[partitions],
        owners[stays],
        now.brokers[stays],
        is_first(now)[stays],
        np.ones(int(stays.sum()), dtype=np.int64),
        worth[stays].astype(np.int64),
        np.zeros(int(stays.sum()), dtype=np.int64),
    )


def _by_bytes(sizes: Ints) -> Ints:
    """Sizes as a few steps, by their rank."""
    order = np.unique(sizes, return_inverse=True)[1].astype(np.int64)
    return order * _BYTES_STEPS // max(1, int(order.max(initial=0)))


def together(problem: Problem, partitions: Ints, bounds: Bounds) -> Groups:
    """By racks; but those that have more in a rack than they may are each by themselves."""
    factor = problem.wanted[partitions]
    counts = in_racks(problem, problem.now.some(partitions))
    odd = (counts[:, :-1] > bounds.most[factor]).any(axis=1)
    key = np.column_stack([factor, counts, np.where(odd, np.arange(len(partitions)), -1)])
    _, first, group_of = np.unique(key, axis=0, return_index=True, return_inverse=True)
    group_of = group_of.ravel().astype(np.int64)
    now = problem.now.some(partitions)
    stays = problem.is_usable[now.brokers]
    brokers = len(problem.broker_ids)
    at = 2 * (group_of[now.owners] * brokers + now.brokers) + is_first(now)
    keys, held = np.unique(at[stays], return_counts=True)
    return Groups(
        partitions,
        group_of,
        np.bincount(group_of, minlength=len(first)).astype(np.int64),
        factor[first],
        keys // 2 // brokers,
        keys // 2 % brokers,
        keys % 2 == 1,
        held.astype(np.int64),
        keys % 2 * 2,
        _shares(problem, now, keys // 2 % brokers, held),
    )


def _shares(problem: Problem, now: Replicas, holders: Ints, held: Ints) -> Ints:
    """How many of each holding stay if all of a broker give up the same share."""
    loads = problem.loads(now)
    even = len(now.brokers) / max(1, int(problem.rack_sizes.sum()))
    staying = np.minimum(1.0, even / np.maximum(loads, 1))[holders]
    return np.ceil(held * staying).astype(np.int64)


def in_racks(problem: Problem, replicas: Replicas) -> Ints:
    """By partition and rack, how many replicas are there; the last column has those on brokers that are gone, or
    may hold none."""
    racks = len(problem.racks)
    where = np.where(problem.may_hold, problem.rack_of, GONE)[replicas.brokers]
    at = replicas.owners * (racks + 1) + np.where(where == GONE, racks, where)
    return np.bincount(at, minlength=len(replicas) * (racks + 1)).reshape(-1, racks + 1).astype(np.int64)


def is_first(replicas: Replicas) -> Bools:
    """Of each replica, whether it is its partition's preferred one."""
    found: Bools = np.arange(len(replicas.brokers)) == np.repeat(replicas.starts[:-1], replicas.counts)
    return found
