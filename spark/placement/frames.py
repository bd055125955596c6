"""The placement of a large cluster: data of its size stay in frames, which `stages` processes in pieces.

What connects the pieces (kinds of partitions, the flow of groups, leaders that change) is small, and is computed
here by the same solver that computes small clusters as a whole (`backend.placement`).
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from backend.placement import documents, leaders
from backend.placement.group_placement import sound
from backend.placement.grouping import Groups, groups_of, holding_keys
from backend.placement.leaders import Candidates, Rules, Totals
from backend.placement.load_levels import Bounds
from backend.placement.move_flow import Flow, least_moves, squares_of
from backend.placement.partition_placement import (
    AGAIN,
    ARCS_ALONE,
    arcs_of,
    arcs_of_crowded,
    each_of,
    place_again,
    unavoidable_moves,
)
from backend.placement.plan import NAMED, Summary, Violation, make, too_many
from backend.placement.problem import Ints, Replicas
from backend.placement.topic_exchange import Exchanges
from backend.placement.verify import DETAILS, FACTOR, Counted
from spark.placement import pieces, stages
from spark.placement.pieces import by_broker, lists, numbers, summed
from spark.placement.placement_request import PlacementRequest
from spark.placement.stages import Overrides

_NONE = np.zeros(0, np.int64)
_OF_NONE = {"counts": (np.arange(4)[:, None], np.zeros(4, np.int64)), "digest": (_NONE[:, None], _NONE)}
"""Sums of a placement without partitions."""


class Placing:
    """The computation of one placement; call `run` once."""

    def __init__(self, request: PlacementRequest, most_arcs: int = ARCS_ALONE) -> None:
        self._request, self._most_arcs = request, most_arcs
        self._brokers, self._spark = request.brokers, request.partitions.sparkSession
        self._overrides = Overrides(_NONE, Replicas.listed([]))

    def run(self, output: str) -> Summary:
        """Compute the placement, write it to `output`, and return figures that are counted from what was written.

        The output is Parquet with topic, partition and replicas of all partitions.
        """
        by_factor, replicas = self._free()
        bounds = Bounds.of(self._brokers.rack_sizes, np.flatnonzero(by_factor))
        arcs = arcs_of(self._brokers, bounds, np.resize(by_factor, len(bounds.least)), replicas)
        if arcs <= self._most_arcs:
            bound, is_even, done = self._whole()
        else:
            bound, is_even, done = self._in_pieces(bounds, arcs, int(by_factor.sum()))
        named = done.join(f.broadcast(self._request.names), "topic")
        written = named.select(f.col("name").alias("topic"), f.col("number").alias("partition"), "replicas")
        written.write.mode("overwrite").parquet(output)
        return self._verified(output, bound, is_even=is_even)

    def _free(self) -> tuple[Ints, int]:
        """Count the partitions that may move by their replication factor, and their present replicas."""
        usable = int(self._brokers.is_usable.sum())
        free = self._request.partitions.filter(~f.col("is_fixed") & (f.col("wanted") <= usable))
        rows = free.groupBy("wanted").agg(f.count("*").alias("count"), f.sum(f.size("now")).alias("has")).collect()
        by_factor = np.zeros(max((row["wanted"] for row in rows), default=0) + 1, dtype=np.int64)
        for row in rows:
            by_factor[row["wanted"]] = row["count"]
        return by_factor, sum(row["has"] for row in rows)

    def _whole(self) -> tuple[int, bool, DataFrame]:
        """Solve as a whole, partition by partition; returns (lower bound, is it balanced, partitions)."""
        piece, table = pieces.read(self._request.partitions.toArrow(), self._brokers)
        plan = make(replace(piece.problem, topics=self._request.topics), self._most_arcs)
        done = stages.done(table, self._brokers, plan.replicas)
        return plan.lower_bound, plan.is_even, self._spark.createDataFrame(done)

    def _in_pieces(self, bounds: Bounds, arcs: int, free: int) -> tuple[int, bool, DataFrame]:
        brokers, partitions, first = self._brokers, self._request.partitions, None
        all_kinds = kinds = self._kinds(partitions, bounds, apart=False)
        crowded = arcs_of_crowded(brokers, bounds, *kinds)
        if crowded > self._most_arcs:
            grouped, groups, fixed, first = self._flow(partitions, bounds, kinds, apart=False)
            stage = stages.relieved(brokers, bounds, groups, first)
            partitions = self._by_group(grouped, stage, pieces.PARTITION).persist()
            kinds = self._kinds(partitions, bounds, apart=False)
        elif crowded:
            kinds = self._kinds(partitions, bounds, apart=True)
        grouped, groups, fixed, flow = self._flow(partitions, bounds, kinds, apart=first is None)
        stage = stages.opened(brokers, bounds, groups, flow)
        opened = self._by_group(grouped, stage, stages.OPENED).persist()
        wanted = flow.planned(brokers, groups)
        if groups.sharing(bounds).any():
            # Not all replicas that the flow keeps may be able to stay, so that the staying ones are counted.
            wanted = fixed + flow.loads - self._loads(opened, f.concat("kept", "direct"))
        new = (
            opened.select("p", "topic", f.posexplode("racks").alias("place", "rack"))
            .groupBy("rack")
            .applyInArrow(stages.filled(brokers, wanted), stages.NEW)
            .toArrow()
            .sort_by([("p", "ascending"), ("place", "ascending")])
        )
        filled = stages.placed(brokers, bounds, numbers(new, "p"), numbers(new, "broker"))
        placed = self._map(opened, filled, stages.PLACED).persist()
        squares = self._mend(placed, bounds, arcs, free, flow.squares)
        chosen = self._leaders(placed)
        led = self._map(placed, stages.led(brokers, self._overrides, *chosen), stages.LED).persist()
        rows = self._map(led, stages.replica_rows(brokers), stages.ROWS)
        table = self._by(f.col("pieces"), rows, stages.exchanges, stages.EXCHANGES).toArrow()
        by = Exchanges(*(numbers(table, field.name) for field in fields(Exchanges)))
        spread = self._map(led, stages.exchanged(brokers, by), stages.LED)
        done = self._by(f.col("leader"), spread, stages.in_order(brokers), stages.DONE)
        first = flow if first is None else first
        is_even = squares == first.squares
        return first.moves if is_even else unavoidable_moves(bounds, *all_kinds), is_even, done

    def _kinds(self, partitions: DataFrame, bounds: Bounds, *, apart: bool) -> tuple[Ints, Ints]:
        return self._sums(partitions, stages.kinds(self._brokers, bounds, apart=apart))["kind"]

    def _flow(
        self, partitions: DataFrame, bounds: Bounds, kinds: tuple[Ints, Ints], *, apart: bool
    ) -> tuple[DataFrame, Groups, Ints, Flow]:
        """Compute the groups' flow: (partitions with groups, groups, loads of fixed partitions, flow)."""
        stage = stages.groups(self._brokers, bounds, kinds[0], apart=apart)
        grouped = self._map(partitions, stage, stages.GROUPED).persist()
        groups, fixed = self._groups(grouped, *kinds)
        return grouped, groups, fixed, least_moves(self._brokers, groups, bounds, fixed)

    def _groups(self, grouped: DataFrame, kinds: Ints, sizes: Ints) -> tuple[Groups, Ints]:
        """Count the groups: (groups, loads of brokers from partitions that do not move)."""
        table = (
            grouped.select("group", f.posexplode("now").alias("place", "broker"))
            .groupBy("group", "broker", (f.col("place") == 0).alias("first"))
            .count()
            .toArrow()
        )
        brokers = self._brokers
        group, held = numbers(table, "group"), numbers(table, "count")
        holder = pieces.index_of(brokers, numbers(table, "broker"))
        free = group >= 0
        loads, fixed = (
            np.bincount(holder[some], held[some], len(brokers.broker_ids)).astype(np.int64)
            for some in (free, ~free)
        )
        stays = free & brokers.is_usable[holder]
        first = np.asarray(table["first"].to_numpy(zero_copy_only=False), bool)
        keys = holding_keys(brokers, group[stays], holder[stays], first[stays])
        order = np.argsort(keys)
        return groups_of(brokers, kinds, sizes, keys[order], held[stays][order], loads), fixed

    def _mend(self, placed: DataFrame, bounds: Bounds, arcs: int, free: int, squares: int) -> int:
        """Place what groups left invalid once more, one by one; return the sum of squares.

        See `partition_placement.place`.
        """
        brokers = self._brokers
        loads = self._loads(placed, f.col("placed"))
        bad = placed.filter(~f.col("is_sound")).count()
        for most in AGAIN:
            if not bad and squares_of(brokers, loads) == squares:
                return squares
            each = each_of(arcs, free, most)
            some = ~f.col("is_sound") | (f.col("p") % each == 0 if each else f.lit(False))
            piece, table = pieces.read(placed.filter(some).toArrow(), brokers)
            movable = np.flatnonzero(~piece.settled.is_fixed)
            piece = piece.some(movable)
            before = self._overrides.on(piece.partitions, lists(table, "placed").some(movable))
            again = place_again(piece.problem, before, bounds, loads)
            if again is not None:
                loads = loads - brokers.loads(before) + brokers.loads(again)
                self._overrides = self._overrides.and_of(piece.partitions, again)
            bad = int((~sound(piece.problem, before if again is None else again, bounds)).sum())
        if bad:
            raise ArithmeticError(f"{bad} partitions could not be placed")
        return squares_of(brokers, loads)

    def _loads(self, frame: DataFrame, column: Column) -> Ints:
        """Count by broker how often it occurs in a column of lists of broker indexes."""
        table = frame.select(f.explode(column).alias("broker")).groupBy("broker").count().toArrow()
        loads = np.zeros(len(self._brokers.broker_ids), dtype=np.int64)
        loads[numbers(table, "broker")] = numbers(table, "count")
        return loads

    def _leaders(self, placed: DataFrame) -> tuple[Ints, Ints]:
        brokers = self._brokers
        found = self._sums(placed, stages.leader_totals(brokers, self._overrides))
        count, candidates = found["counts"][1].tolist()
        kept, fixed, could = (by_broker(found, what, brokers) for what in ("kept", "fixed", "could"))
        totals = Totals(count=count, candidates=candidates, kept=kept, fixed=fixed, could=could)

        def part(rules: Rules | None) -> Candidates:
            stage = stages.candidates(brokers, self._overrides, rules)
            table = self._map(placed, stage, stages.CANDIDATES).toArrow().sort_by("p")
            found = lists(table, "brokers")
            return Candidates(numbers(table, "p"), numbers(table, "staying"), found.owners, found.brokers)

        return leaders.balanced(totals, part)

    # --- verification of the output

    def _verified(self, output: str, bound: int, *, is_even: bool) -> Summary:
        request, brokers = self._request, self._brokers
        written = self._spark.read.parquet(output).withColumnRenamed("topic", "name")
        numbered = written.join(f.broadcast(request.names), "name").withColumnRenamed("partition", "number")
        both = request.partitions.join(numbered, ["topic", "number"])
        table = self._by(f.col("topic"), both, stages.verified(brokers), pieces.SUMS)
        found = {**_OF_NONE, **_added(table)}
        moves, high, low, changes = found["counts"][1].tolist()
        moved_bytes = high * stages.BYTES_LOW + low
        loads, leads = (by_broker(found, what, brokers) for what in ("loads", "leads"))
        counted = Counted(moves=moves, moved_bytes=moved_bytes, leader_changes=changes, loads=loads, leads=leads)
        if written.count() != request.count or int(leads.sum()) != request.count:
            raise ArithmeticError("the output lacks partitions or has some of them twice")
        digests = {request.topics[row[0]]: row[1:].tobytes() for row in found["digest"][0]}
        return Summary(
            brokers=brokers,
            counted=counted,
            lower_bound=bound,
            violations=tuple(self._violations(found)),
            largest_share=self._largest_share(written),
            digest=documents.digest_of_topics(brokers, digests),
            is_even=is_even,
        )

    def _violations(self, found: dict[str, tuple[Ints, Ints]]) -> list[Violation]:
        brokers, violations = self._brokers, []
        partitions = self._request.partitions
        usable = int(brokers.is_usable.sum())
        impossible = partitions.filter(~f.col("is_fixed") & (f.col("wanted") > usable))
        ((count, most),) = impossible.agg(f.count("*"), f.max("wanted")).collect()
        if count:
            violations.append(Violation(FACTOR, self._names(impossible), count, too_many(brokers, most)))
        for rule, detail in DETAILS.items():
            if f"broken {rule}" in found:
                some = found[f"named {rule}"][0][:NAMED, 0].tolist()
                named = self._names(partitions.filter(f.col("p").isin(some)))
                violations.append(Violation(rule, named, int(found[f"broken {rule}"][1].sum()), detail))
        return violations

    def _names(self, partitions: DataFrame) -> tuple[str, ...]:
        """Return the names of the first partitions."""
        rows = partitions.orderBy("p").select("topic", "number").limit(NAMED).collect()
        return tuple(f"{self._request.topics[row['topic']]}-{row['number']}" for row in rows)

    @staticmethod
    def _largest_share(written: DataFrame) -> float:
        pair = [f.element_at("replicas", at).alias(name) for at, name in ((1, "leader"), (2, "next"))]
        pairs = written.filter(f.size("replicas") > 1).select(*pair).groupBy("leader", "next").count()
        shares = pairs.groupBy("leader").agg((f.max("count") / f.sum("count")).alias("share"))
        return float(shares.agg(f.max("share")).collect()[0][0] or 0)

    # --- stages

    def _map(self, frame: DataFrame, stage: stages.Stage, schema: str) -> DataFrame:
        return frame.mapInArrow(stages.on_batches(stage), schema)

    def _by(self, column: Column, frame: DataFrame, stage: stages.Stage, schema: str) -> DataFrame:
        """Run a stage so that all rows with equal values in a column are in one piece."""
        bucket = f.pmod(column, f.lit(self._request.tasks))
        return frame.withColumn("bucket", bucket).groupBy("bucket").applyInArrow(stage, schema)

    def _by_group(self, grouped: DataFrame, stage: stages.Stage, schema: str) -> DataFrame:
        column = f.when(f.col("group") < 0, f.col("p")).otherwise(f.col("group"))
        return self._by(column, grouped, stage, schema)

    def _sums(self, frame: DataFrame, stage: stages.Stage) -> dict[str, tuple[Ints, Ints]]:
        return _added(self._map(frame, stage, pieces.SUMS))


def _added(frame: DataFrame) -> dict[str, tuple[Ints, Ints]]:
    return summed(frame.groupBy("what", "at").agg(f.sum("value").alias("value")).toArrow())
