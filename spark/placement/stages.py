"""Stages that Python workers run on pieces.

Pieces are independent in every stage, so that the result does not depend on how the partitions are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from backend.placement import crowded_racks, documents, leaders, topic_exchange, verify
from backend.placement.failover_order import ordered
from backend.placement.group_placement import choose_brokers, open_places, sound
from backend.placement.grouping import Grouped, Groups, kinds_of
from backend.placement.leaders import Rules
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import Flow
from backend.placement.plan import NAMED
from backend.placement.problem import Brokers, Ints, Problem, Replicas, starts_of
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
"""Schema with the replicas that each partition keeps, the racks of new ones, and brokers already chosen.

From here on, brokers are identified by index.
"""
NEW = "p long, place int, broker long"
GROUPED = f"{PARTITION}, group long"
PLACED = f"{PARTITION}, placed array<long>, is_sound boolean"
CANDIDATES = "p long, staying long, brokers array<long>"
LED = f"{PARTITION}, placed array<long>, leader long"
ROWS = ", ".join(f"{field.name} long" for field in fields(topic_exchange.Rows))
EXCHANGES = ", ".join(f"{field.name} long" for field in fields(topic_exchange.Exchanges))
DONE = "topic int, number long, replicas array<long>"
"""Schema of the result; brokers are identified by id."""
BYTES_LOW = 2**32
"""Return a stage as a function for mapInArrow."""


def on_batches(stage: Stage) -> Callable[[Batches], Batches]:
    """Return a stage as a function for mapInArrow."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield from stage(pa.Table.from_batches([batch])).to_batches()

    return run


def _with(table: pa.Table, **columns: pa.Array) -> pa.Table:
    """Return the partition columns of a table with further columns."""
    return pa.table({**{name: table[name] for name in COLUMNS}, **columns})


@dataclass(frozen=True)
class Overrides:
    """Partitions that were placed once more, with their replicas."""

    partitions: Ints
    """Numbers of the partitions, in order."""
    placed: Replicas

    def on(self, partitions: Ints, placed: Replicas) -> Replicas:
        """Return the replicas of some partitions with overrides applied."""
        here = np.flatnonzero(np.isin(partitions, self.partitions))
        if not len(here):
            return placed
        return placed.replaced(here, self.placed.some(np.searchsorted(self.partitions, partitions[here])))

    def and_of(self, partitions: Ints, placed: Replicas) -> Overrides:
        """Return the overrides with more partitions, which replace earlier ones."""
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
    """Return rows of DONE for a piece's table."""
    return pa.table({"topic": table["topic"], "number": table["number"], "replicas": _ids(brokers, replicas)})


def kinds(brokers: Brokers, bounds: Bounds, *, apart: bool) -> Stage:
    """Count the movable partitions of each kind; `apart` as in `kinds_of`."""

    def run(table: pa.Table) -> pa.Table:
        piece, _ = read(table, brokers)
        free = piece.some(np.flatnonzero(~piece.settled.is_fixed))
        rows = kinds_of(free.problem, free.partitions, bounds, apart=apart)
        found, sizes = np.unique(rows, axis=0, return_counts=True)
        return sums({"kind": (found, sizes)})

    return run


def groups(brokers: Brokers, bounds: Bounds, known: Ints, *, apart: bool) -> Stage:
    """Add to each partition its group, the index of its kind; -1 for one that does not move."""
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
    """Remove replicas from crowded racks; a piece must have all partitions of a group or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        group = numbers(table, "group")
        free = np.flatnonzero(group >= 0)
        found = crowded_racks.relieved(piece.problem.some(free), Grouped(group[free], all_groups), bounds, flow)
        return _with(table, now=_ids(brokers, piece.problem.now.replaced(free, found)))

    return run


def opened(brokers: Brokers, bounds: Bounds, all_groups: Groups, flow: Flow) -> Stage:
    """Add what each partition keeps and where it gets replicas; a piece must have whole groups."""

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
    """Choose brokers for new replicas in racks; a piece must have all of a rack."""

    def run(table: pa.Table) -> pa.Table:
        table = table.sort_by([("p", "ascending"), ("place", "ascending")])
        owner = numbers(table, "p")
        chosen = choose_brokers(brokers, wanted, numbers(table, "topic"), owner, numbers(table, "rack"))
        return pa.table({"p": table["p"], "place": table["place"], "broker": pa.array(chosen)})

    return run


def placed(brokers: Brokers, bounds: Bounds, owners: Ints, chosen: Ints) -> Stage:
    """Combine kept and new replicas; `owners` and `chosen` are the new ones, in order."""

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
    """Sum up what is needed to choose leaders."""

    def run(table: pa.Table) -> pa.Table:
        piece, _, replicas = _pieces(table, brokers, overrides)
        settled = piece.settled
        choices = leaders.candidates_of(settled, replicas, np.arange(len(replicas)))
        totals = leaders.totals_of(settled, choices, leaders.led_now(settled, replicas))
        counts = np.arange(2), np.array([totals.count, totals.candidates])
        by_broker = {what: of_brokers(getattr(totals, what)) for what in ("kept", "fixed", "could")}
        return sums({"counts": counts, **by_broker})

    return run


def candidates(brokers: Brokers, overrides: Overrides, rules: Rules | None) -> Stage:
    """Return the candidates that take part in the choice of leaders under some rules."""

    def run(table: pa.Table) -> pa.Table:
        piece, _, replicas = _pieces(table, brokers, overrides)
        choices = leaders.candidates_of(piece.settled, replicas, piece.partitions).taking_part(rules)
        found = listed(choices.owners, choices.brokers, len(choices.partitions))
        return pa.table(
            {"p": pa.array(choices.partitions), "staying": pa.array(choices.staying), "brokers": as_lists(found)}
        )

    return run


def led(brokers: Brokers, overrides: Overrides, partitions: Ints, chosen: Ints) -> Stage:
    """Add the leader of each partition; `partitions` are those whose leader was chosen, in order."""

    def run(table: pa.Table) -> pa.Table:
        piece, table, replicas = _pieces(table, brokers, overrides)
        leader = leaders.led_now(piece.settled, replicas)
        here = np.flatnonzero(np.isin(piece.partitions, partitions))
        leader[here] = chosen[np.searchsorted(partitions, piece.partitions[here])]
        return _with(table, placed=as_lists(replicas), leader=pa.array(leader))

    return run


def replica_rows(brokers: Brokers) -> Stage:
    """Return replicas before and after, one row each."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        replicas, leader = lists(table, "placed"), numbers(table, "leader")
        return pa.table(vars(topic_exchange.rows_of(piece.settled, piece.partitions, replicas, leader)))

    return run


def exchanges(table: pa.Table) -> pa.Table:
    """Compute the exchanges of replicas that improve topics' distribution; pieces must be complete."""
    rows = topic_exchange.Rows(*(numbers(table, field.name) for field in fields(topic_exchange.Rows)))
    return pa.table(vars(topic_exchange.exchanges(rows)))


def exchanged(brokers: Brokers, by: topic_exchange.Exchanges) -> Stage:
    """Apply exchanges."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        replicas, leader = lists(table, "placed"), numbers(table, "leader")
        replicas, leader = topic_exchange.exchanged(brokers, piece.partitions, replicas, leader, by)
        return _with(table, placed=as_lists(replicas), leader=pa.array(leader))

    return run


def in_order(brokers: Brokers) -> Stage:
    """Order replicas by failover; a piece must have all partitions that a broker leads, or none."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        settled = piece.settled
        found = ordered(settled, lists(table, "placed"), numbers(table, "leader"), ~settled.is_fixed)
        return done(table, brokers, found)

    return run


def verified(brokers: Brokers) -> Stage:
    """Count everything again, from the request and the output; a piece must have whole topics."""

    def run(table: pa.Table) -> pa.Table:
        piece, table = read(table, brokers)
        ids = lists(table, "replicas")
        replicas = Replicas(ids.starts, index_of(brokers, ids.brokers))
        counted = verify.count(piece.problem, replicas)
        # The number is split in two because it may exceed 64 bits.
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
