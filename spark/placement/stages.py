"""What Python workers do with pieces, stage by stage. Pieces do not depend on each other in any of them, so that
it comes to the same however the partitions are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from backend.placement import crowding, documents, leaders, topics, verify
from backend.placement.grouping import Grouped, Groups, kinds_of
from backend.placement.leaders import Rules
from backend.placement.moving import Flow
from backend.placement.plan import NAMED
from backend.placement.problem import Brokers, Ints, Problem, Replicas, starts_of
from backend.placement.realising import choose_brokers, open_places, sound
from backend.placement.shares import Bounds
from backend.placement.spread import ordered
from spark.placement.pieces import (
    COLUMNS,
    PARTITION,
    Piece,
    as_lists,
    index_of,
    listed,
    lists,
    numbers,
    of_brokers,
    read,
    sums,
)

Batches = Iterator[pa.RecordBatch]
Stage = Callable[[pa.Table], pa.Table]
OPENED = f"{PARTITION}, kept array<long>, racks array<long>, direct array<long>"
"""With what each keeps, the racks where it gets something new, and brokers that are chosen for it already; brokers
by their index from here on."""
NEW = "p long, place int, broker long"
GROUPED = f"{PARTITION}, group long"
PLACED = f"{PARTITION}, placed array<long>, is_sound boolean"
CANDIDATES = "p long, staying long, brokers array<long>"
LED = f"{PARTITION}, placed array<long>, leader long"
ROWS = ", ".join(f"{field.name} long" for field in fields(topics.Rows))
EXCHANGES = ", ".join(f"{field.name} long" for field in fields(topics.Exchanges))
DONE = "topic int, number long, replicas array<long>"
"""Brokers by their ids."""
BYTES_LOW = 2**32
"""What the lower half of a number of bytes stays below."""


def on_batches(stage: Stage) -> Callable[[Batches], Batches]:
    """For mapInArrow."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield from stage(pa.Table.from_batches([batch])).to_batches()

    return run


def _with(table: pa.Table, **columns: pa.Array) -> pa.Table:
    """The partitions of a table, and more about them."""
    return pa.table({**{name: table[name] for name in COLUMNS}, **columns})


@dataclass(frozen=True)
class Overrides:
    """Partitions that were placed once more, and how."""

    partitions: Ints
    """In order."""
    placed: Replicas

    def on(self, partitions: Ints, placed: Replicas) -> Replicas:
        """The replicas of some partitions, as they are by now."""
        here = np.flatnonzero(np.isin(partitions, self.partitions))
        if not len(here):
            return placed
        return placed.replaced(here, self.placed.some(np.searchsorted(self.partitions, partitions[here])))

    def and_of(self, partitions: Ints, placed: Replicas) -> Overrides:
        """With more of them, or the same anew."""
        stay = np.flatnonzero(~np.isin(self.partitions, partitions))
        every = np.concatenate([self.partitions[stay], partitions])
        order = np.argsort(every)
        before = self.placed.some(stay)
        together = Replicas(
            np.concatenate([before.starts, before.starts[-1] + placed.starts[1:]]),
            np.concatenate([before.brokers, placed.brokers]),
        )
        return Overrides(every[order], together.some(order))


def _ids(brokers: Brokers, replicas: Replicas) -> pa.Array:
    return as_lists(Replicas(replicas.starts, brokers.broker_ids[replicas.brokers]))


def done(table: pa.Table, brokers: Brokers, replicas: Replicas) -> pa.Table:
    """Rows of DONE for a piece's table."""
    return pa.table({"topic": table["topic"], "number": table["number"], "replicas": _ids(brokers, replicas)})


def kinds(brokers: Brokers, bounds: Bounds, *, apart: bool) -> Stage:
    """How many partitions of each kind there are, of those that may move; `apart`: as in `kinds_of`."""

    def run(table: pa.Table) -> pa.Table:
        piece, _ = read(table, brokers)
        free = piece.some(np.flatnonzero(~piece.settled.is_fixed))
        rows = kinds_of(free.problem, free.partitions, bounds, apart=apart)
        found, sizes = np.unique(rows, axis=0, return_counts=True)
        return sums({"kind": (found, sizes)})

    return run


def groups(brokers: Brokers, bounds: Bounds, known: Ints, *, apart: bool) -> Stage:
    """The group of each partition: its kind's place among all that there are; -1 for one that does not move."""
    rows = {row.tobytes(): at for at, row in enumerate(known)}

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        free = np.flatnonzero(~piece.settled.is_fixed)
        some = piece.some(free)
        mine, index = np.unique(
            kinds_of(some.problem, some.partitions, bounds, apart=apart), axis=0, return_inverse=True
        )
        at = np.array([rows.get(np.ascontiguousarray(row).tobytes(), -1) for row in mine], np.int64)
        group = np.full(len(piece.partitions), -1, dtype=np.int64)
        group[free] = at[index.ravel()]
        return _with(table, group=pa.array(group))

    return run


def relieved(brokers: Brokers, bounds: Bounds, all_groups: Groups, flow: Flow) -> Stage:
    """With less in crowded racks; of all partitions of a group, or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        group = numbers(table, "group")
        free = np.flatnonzero(group >= 0)
        found = crowding.relieved(piece.problem.some(free), Grouped(group[free], all_groups), bounds, flow)
        return _with(table, now=_ids(brokers, piece.problem.now.replaced(free, found)))

    return run


def opened(brokers: Brokers, bounds: Bounds, all_groups: Groups, flow: Flow) -> Stage:
    """What each partition keeps, and where it gets something new; of all partitions of a group, or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        group, count = numbers(table, "group"), table.num_rows
        free = np.flatnonzero(group >= 0)
        found = open_places(piece.problem.some(free), Grouped(group[free], all_groups), bounds, flow)
        kept = piece.problem.now.replaced(free, found.kept)
        racks = listed(free[found.owner], found.rack, count)
        direct = listed(free[found.direct], found.broker, count)
        return _with(table, kept=as_lists(kept), racks=as_lists(racks), direct=as_lists(direct))

    return run


def filled(brokers: Brokers, wanted: Ints) -> Stage:
    """Brokers for what is new in a rack; of all of it."""

    def run(table: pa.Table) -> pa.Table:
        table = table.sort_by([("p", "ascending"), ("place", "ascending")])
        owner = numbers(table, "p")
        chosen = choose_brokers(brokers, wanted, numbers(table, "topic"), owner, numbers(table, "rack"))
        return pa.table({"p": table["p"], "place": table["place"], "broker": pa.array(chosen)})

    return run


def placed(brokers: Brokers, bounds: Bounds, owners: Ints, chosen: Ints) -> Stage:
    """Put together; `owners` and `chosen`: what is new, in order."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        count = table.num_rows
        first, end = np.searchsorted(owners, piece.partitions), np.searchsorted(owners, piece.partitions, "right")
        starts = starts_of(end - first)
        at = np.repeat(first - starts[:-1], end - first) + np.arange(starts[-1])
        parts = [lists(table, "kept"), Replicas(starts, chosen[at]), lists(table, "direct")]
        found = listed(
            np.concatenate([each.owners for each in parts]),
            np.concatenate([each.brokers for each in parts]),
            count,
        )
        settled = piece.settled
        good = settled.is_fixed.copy()
        free = np.flatnonzero(~good)
        good[free] = sound(settled.some(free), found.some(free), bounds)
        return _with(table, placed=as_lists(found), is_sound=pa.array(good))

    return run


def _pieces(table: pa.Table, brokers: Brokers, overrides: Overrides) -> tuple[Piece, pa.Table, Replicas]:
    piece, table = read(table, brokers)
    return piece, table, overrides.on(piece.partitions, lists(table, "placed"))


def leader_totals(brokers: Brokers, overrides: Overrides) -> Stage:
    """What is to be known before leaders are chosen."""

    def run(table: pa.Table) -> pa.Table:
        piece, _, replicas = _pieces(table, brokers, overrides)
        settled = piece.settled
        asked = leaders.candidates_of(settled, replicas, np.arange(len(replicas)))
        totals = leaders.totals_of(settled, asked, leaders.led_now(settled, replicas))
        counts = np.arange(2), np.array([totals.count, totals.candidates])
        by_broker = {what: of_brokers(getattr(totals, what)) for what in ("kept", "fixed", "could")}
        return sums({"counts": counts, **by_broker})

    return run


def candidates(brokers: Brokers, overrides: Overrides, rules: Rules | None) -> Stage:
    """Who may lead what, of those that take part by some rules."""

    def run(table: pa.Table) -> pa.Table:
        piece, _, replicas = _pieces(table, brokers, overrides)
        asked = leaders.candidates_of(piece.settled, replicas, piece.partitions).taking_part(rules)
        found = listed(asked.owners, asked.brokers, len(asked.partitions))
        return pa.table(
            {"p": pa.array(asked.partitions), "staying": pa.array(asked.staying), "brokers": as_lists(found)}
        )

    return run


def led(brokers: Brokers, overrides: Overrides, partitions: Ints, chosen: Ints) -> Stage:
    """With the leader of each; `partitions`: those whose leader was chosen, in order."""

    def run(table: pa.Table) -> pa.Table:
        piece, table, replicas = _pieces(table, brokers, overrides)
        leader = leaders.led_now(piece.settled, replicas)
        here = np.flatnonzero(np.isin(piece.partitions, partitions))
        leader[here] = chosen[np.searchsorted(partitions, piece.partitions[here])]
        return _with(table, placed=as_lists(replicas), leader=pa.array(leader))

    return run


def replica_rows(brokers: Brokers) -> Stage:
    """Replicas before and after, one by one."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        replicas, leader = lists(table, "placed"), numbers(table, "leader")
        return pa.table(vars(topics.rows_of(piece.settled, piece.partitions, replicas, leader)))

    return run


def exchanges(table: pa.Table) -> pa.Table:
    """Brokers that replicas exchange for the sake of topics; of all rows of their pieces."""
    rows = topics.Rows(*(numbers(table, field.name) for field in fields(topics.Rows)))
    return pa.table(vars(topics.exchanges(rows)))


def exchanged(brokers: Brokers, by: topics.Exchanges) -> Stage:
    """With these exchanges made."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        replicas, leader = lists(table, "placed"), numbers(table, "leader")
        replicas, leader = topics.exchanged(brokers, piece.partitions, replicas, leader, by)
        return _with(table, placed=as_lists(replicas), leader=pa.array(leader))

    return run


def in_order(brokers: Brokers) -> Stage:
    """Who is next; of all that a broker leads, or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        settled = piece.settled
        found = ordered(settled, lists(table, "placed"), numbers(table, "leader"), ~settled.is_fixed)
        return done(table, brokers, found)

    return run


def verified(brokers: Brokers) -> Stage:
    """Everything counted anew, from what was read and what was written; of all partitions of a topic, or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        ids = lists(table, "replicas")
        replicas = Replicas(ids.starts, index_of(brokers, ids.brokers))
        counted = verify.count(piece.problem, replicas)
        # In two halves: together they may have more than 64 bits.
        high, low = divmod(counted.moved_bytes, BYTES_LOW)
        found = {"counts": (np.arange(4), np.array([counted.moves, high, low, counted.leader_changes]))}
        found |= {what: of_brokers(getattr(counted, what)) for what in ("loads", "leads")}
        impossible = piece.settled.is_fixed & ~piece.problem.is_fixed
        for rule, broken in verify.broken(piece.problem, replicas).items():
            others = broken[~impossible[broken]]
            if not len(others):
                continue
            found[f"broken {rule}"] = np.zeros(1, np.int64), np.array([len(others)])
            found[f"named {rule}"] = piece.partitions[others[:NAMED]], np.ones(len(others[:NAMED]), np.int64)
        return pa.concat_tables([sums(found), _digests(piece.problem, replicas)])

    return run


def _digests(problem: Problem, replicas: Replicas) -> pa.Table:
    mine, topic_of = np.unique(problem.topic_of, return_inverse=True)
    one_by_one = replace(problem, topics=tuple(map(str, mine)), topic_of=topic_of.ravel())
    digests = documents.topic_digests(one_by_one, replicas)
    rows = np.frombuffer(b"".join(digests), np.int64).reshape(len(mine), -1)
    return sums({"digest": (np.column_stack([mine, rows]), np.ones(len(mine), np.int64))})
