"""Distribution of each topic's replicas over brokers, improved as far as that takes no additional move.

The earlier steps only count replicas; they do not care which topics the replicas belong to. Here two replicas in
one rack exchange their brokers if that makes both topics' replica counts per broker more even, and if no more
replicas move, no broker leads more or fewer partitions, and no more leaders change. Candidates are pairs of new
replicas on different brokers, and a new replica with one that has stayed where the first came from. Brokers,
racks, moves and leaders therefore count as before, and for each topic the fullest broker gets no fuller and the
emptiest no emptier.

Racks, and blocks of topics in them, are independent, so that a large cluster is processed in these pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.problem import Bools, Brokers, Ints, Problem, Replicas

_NONE = np.zeros(0, np.int64)
_COUNTS = 4_000_000
"""Upper bound of the counters (topics times brokers) that one piece holds, unless a single topic needs more."""
_ROUNDS = 60
"""Maximum number of rounds; each takes time in proportion to the number of moves."""
_SEED = 42
"""Seed of each piece's random numbers; it is constant so that the same problem has the same plan."""
_HAS, _WAS, _LEADS, _MAY = 1, 2, 4, 8
_SHIFT = 4
"""Factor that leaves room for `_HAS` and `_WAS` in the low bits of a key."""
_IDLE = 3
"""Number of consecutive rounds without an exchange after which the search ends; each draws new partners."""


@dataclass(frozen=True)
class Rows:
    """Replicas before and after, grouped by partition; arrays by row."""

    pieces: Ints
    """The piece of each row; rows of different pieces are never exchanged."""
    partitions: Ints
    topics: Ints
    brokers: Ints
    firsts: Ints
    """The broker of the partition's preferred replica before."""
    flags: Ints
    """Bit set: `_HAS` (a replica after), `_WAS` (a replica before), `_LEADS` (preferred), `_MAY` (may be
    exchanged)."""

    def of(self, some: Ints) -> Rows:
        """Return some of the rows."""
        return Rows(*(each[some] for each in vars(self).values()))


@dataclass(frozen=True)
class Exchanges:
    """Replicas that the exchange puts on another broker; arrays."""

    partitions: Ints
    given: Ints
    """The broker that had the replica."""
    taken: Ints
    """The broker that gets the replica instead."""


def rows_of(some: Problem, partitions: Ints, replicas: Replicas, leaders: Ints) -> Rows:
    """Return the rows of the partitions in `some`, whose numbers are `partitions`."""
    total, racks = len(some.broker_ids), len(some.racks)
    after, before = (each.owners * total + each.brokers for each in (replicas, some.now))
    # After sorting, the two entries of a replica are adjacent: one pass, where set functions take several.
    marked = np.sort(np.concatenate([after * _SHIFT + _HAS, before * _SHIFT + _WAS]))
    keys = marked // _SHIFT
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    flags = np.add.reduceat(marked % _SHIFT, starts) if len(starts) else marked
    usable = some.is_usable[keys[starts] % total]
    keys, flags = keys[starts][usable], flags[usable]
    owners, brokers = keys // total, keys % total
    # Partitions led by a broker that may not lead have no other candidate; an exchange might give them one.
    may = ~some.is_fixed[owners] & some.may_lead[leaders[owners]]
    flags += _LEADS * (leaders[owners] == brokers) + _MAY * may
    rack = some.rack_of[brokers]
    block = some.topic_of[owners] // np.maximum(1, _COUNTS // np.maximum(1, some.rack_sizes))[rack]
    firsts = some.now.firsts[owners]
    return Rows(block * racks + rack, partitions[owners], some.topic_of[owners], brokers, firsts, flags)


def exchanges(rows: Rows) -> Exchanges:
    """Compute the exchanges of all pieces in `rows`, each of which must be complete."""
    order = np.lexsort((rows.brokers, rows.partitions, rows.pieces))
    cuts = np.flatnonzero(np.diff(rows.pieces[order])) + 1
    found = [_Piece(rows.of(mine)).exchanged() for mine in np.split(order, cuts) if len(mine)]
    columns = zip(*(vars(each).values() for each in found), strict=True)
    return Exchanges(*(np.concatenate(each) for each in columns)) if found else Exchanges(*[_NONE] * 3)


def exchanged(
    brokers: Brokers, partitions: Ints, replicas: Replicas, leaders: Ints, by: Exchanges
) -> tuple[Replicas, Ints]:
    """Apply exchanges, and return (replicas, leaders) of the partitions."""
    total = len(brokers.broker_ids)
    keys = by.partitions * total + by.given
    order = np.argsort(keys)

    def after(owners: Ints, having: Ints) -> Ints:
        mine = partitions[owners] * total + having
        at = np.minimum(np.searchsorted(keys[order], mine), max(0, len(keys) - 1))
        return np.where(keys[order][at] == mine, by.taken[order][at], having) if len(keys) else having

    led = np.flatnonzero(leaders >= 0)
    found = leaders.copy()
    found[led] = after(led, leaders[led])
    return Replicas(replicas.starts, after(replicas.owners, replicas.brokers)), found


class _Piece:
    """Places on brokers that hold one replica each; an exchange swaps the replicas of two places."""

    def __init__(self, rows: Rows) -> None:
        has = np.flatnonzero(rows.flags & _HAS)
        self._rows = rows.of(has)
        self._ids, brokers = np.unique(self._rows.brokers, return_inverse=True)
        self._width = len(self._ids)
        _, partitions = np.unique(rows.partitions, return_inverse=True)
        _, topics = np.unique(rows.topics, return_inverse=True)
        self._partition, self._topic = partitions[has], topics[has]
        was = np.flatnonzero((rows.flags & _WAS) > 0)
        was = was[np.isin(rows.brokers[was], self._ids)]
        self._was = partitions[was] * self._width + np.searchsorted(self._ids, rows.brokers[was])
        first = np.searchsorted(self._ids, self._rows.firsts)
        known = np.isin(self._rows.firsts, self._ids)
        self._first = np.where(known, first, -1)
        self._may = (self._rows.flags & _MAY) > 0
        # Arrays by place:
        self._holds = np.argsort(brokers, kind="stable")
        self._broker = brokers[self._holds]
        self._leads = ((self._rows.flags & _LEADS) > 0)[self._holds]
        self._is_new = ((self._rows.flags & _WAS) == 0)[self._holds]
        self._starts = np.searchsorted(self._broker, np.arange(self._width + 1))
        # Arrays by replica:
        self._place = np.argsort(self._holds)
        cells = int(topics.max(initial=-1) + 1) * self._width
        self._counts = np.bincount(self._topic * self._width + brokers, minlength=cells)
        leading = self._leads[self._place]
        self._led = np.bincount((self._topic * self._width + brokers)[leading], minlength=cells)
        self._most = int(np.bincount(self._partition).max(initial=0))
        self._random = np.random.default_rng(_SEED)

    def exchanged(self) -> Exchanges:
        """Repeat rounds until several in a row find nothing, and return the exchanges."""
        idle = 0
        for _ in range(_ROUNDS):
            done = self._round()
            idle = 0 if done else idle + 1
            if idle == _IDLE:
                break
        rows = self._rows
        after = self._ids[self._broker[self._place]]
        other = np.flatnonzero(after != rows.brokers)
        return Exchanges(rows.partitions[other], rows.brokers[other], after[other])

    def _round(self) -> int:
        new = np.flatnonzero(self._is_new & self._may[self._holds])
        if not len(new):
            return 0
        one = np.concatenate([new, new])
        other = np.concatenate([self._at_home(new), self._random.permutation(new)])
        known = other >= 0
        one, other = one[known], other[known]
        gain = self._gain(one, other)
        good = np.flatnonzero(gain > 0)
        one, other = one[good], other[good]
        first = np.lexsort((one, -gain[good]))
        one, other = one[first], other[first]
        if len(one):
            apart = self._apart(one, other)
            one, other = one[apart], other[apart]
            self._exchange(one, other)
        return len(one)

    def _at_home(self, new: Ints) -> Ints:
        """Return for each place with a new replica a random place of a broker that it came from; -1 for none."""
        partition = self._partition[self._holds[new]]
        low, high = (np.searchsorted(self._was, (partition + each) * self._width) for each in (0, 1))
        pick, where = self._random.integers(0, 2**31, (2, len(new)))
        comes = high > low
        home = np.zeros(len(new), np.int64)
        home[comes] = self._was[(low + pick % np.maximum(1, high - low))[comes]] % self._width
        sizes = self._starts[home + 1] - self._starts[home]
        found: Ints = np.where(comes, self._starts[home] + where % sizes, -1)
        return found

    def _gain(self, one: Ints, other: Ints) -> Ints:
        """Return how much each exchange improves the distribution of topics; 0 where it is not allowed."""
        mine, yours = self._holds[one], self._holds[other]
        here, there = self._broker[one], self._broker[other]
        good = (here != there) & (self._leads[one] == self._leads[other])
        good &= self._may[mine] & self._may[yours] & (self._topic[mine] != self._topic[yours])
        leads = self._leads[one]
        gain = np.zeros(len(one), np.int64)
        for replica, at, to in ((mine, here, there), (yours, there, here)):
            topic = self._topic[replica] * self._width
            closer = self._counts[topic + at] - self._counts[topic + to] - 1
            led = np.where(leads, self._led[topic + at] - self._led[topic + to] - 1, 0)
            good &= (closer >= 0) & (led >= 0) & ~self._is_on(replica, to)
            gain += closer + led
        good &= gain > 0
        some = np.flatnonzero(good)
        mine, yours, here, there = (each[some] for each in (mine, yours, here, there))
        more = (~self._was_on(mine, there)).astype(int) + ~self._was_on(yours, here)
        more -= self._is_new[one[some]].astype(int) + self._is_new[other[some]]
        changes = (self._first[mine] != there).astype(int) + (self._first[yours] != here)
        changes -= (self._first[mine] != here).astype(int) + (self._first[yours] != there)
        good[some] = (more <= 0) & ((changes <= 0) | ~leads[some])
        return np.where(good, gain, 0)

    def _was_on(self, replica: Ints, broker: Ints) -> Bools:
        keys = self._partition[replica] * self._width + broker
        at = np.minimum(np.searchsorted(self._was, keys), max(0, len(self._was) - 1))
        return self._was[at] == keys if len(self._was) else np.zeros(len(keys), bool)

    def _is_on(self, replica: Ints, broker: Ints) -> Bools:
        """Tell whether a broker has another replica of the same partition."""
        found = np.zeros(len(replica), dtype=bool)
        for step in (*range(1 - self._most, 0), *range(1, self._most)):
            next_to = np.clip(replica + step, 0, len(self._partition) - 1)
            same = self._partition[next_to] == self._partition[replica]
            found |= same & (next_to != replica) & (self._broker[self._place[next_to]] == broker)
        return found

    def _apart(self, one: Ints, other: Ints) -> Ints:
        """Return the exchanges that share no partition, and no topic on a broker, with an earlier one."""
        mine, yours = self._holds[one], self._holds[other]
        cells = [
            self._topic[replica] * self._width + self._broker[place]
            for replica in (mine, yours)
            for place in (one, other)
        ]
        shift = len(self._counts)
        keys = np.column_stack([*cells, shift + self._partition[mine], shift + self._partition[yours]])
        at = np.unique(keys, return_index=True)[1]
        is_first = np.zeros(keys.size, bool)
        is_first[at] = True
        return np.flatnonzero(is_first.reshape(keys.shape).all(axis=1))

    def _exchange(self, one: Ints, other: Ints) -> None:
        mine, yours = self._holds[one], self._holds[other]
        for replica, at, to in ((mine, one, other), (yours, other, one)):
            topic = self._topic[replica] * self._width
            for counts, some in ((self._counts, slice(None)), (self._led, self._leads[at])):
                np.subtract.at(counts, (topic + self._broker[at])[some], 1)
                np.add.at(counts, (topic + self._broker[to])[some], 1)
        self._holds[one], self._holds[other] = yours, mine
        self._place[mine], self._place[yours] = other, one
        for place, replica in ((one, yours), (other, mine)):
            self._is_new[place] = ~self._was_on(replica, self._broker[place])
