"""Placement in pieces comes to what the kernel comes to whole, however the partitions are cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backend.placement.documents import rows_of
from backend.placement.plan import make
from backend.placement.problem import GONE, Problem
from backend.placement.questions import read_problem
from spark.placement import asked
from spark.placement.frames import Placing
from tests.placement.instances import question
from tests.placement.test_together import CHANGES

ROW = "topic string, partition int, replicas array<int>, size_bytes long"


@pytest.fixture
def pieces_of_100(spark: SparkSession) -> Iterator[None]:
    """So that there are many, although partitions are few."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "100")
    yield
    spark.conf.set(name, before)


def aims_of(problem: Problem) -> dict[str, Any]:
    """The question without its partitions."""
    ids = problem.broker_ids.tolist()
    known = [at for at in range(len(ids)) if problem.rack_of[at] != GONE]
    return {
        "brokers": [{"id": ids[at], "rack": problem.racks[problem.rack_of[at]] or None} for at in known],
        "target_brokers": [ids[at] for at in known if problem.may_hold[at]],
        "no_leaders": [ids[at] for at in known if problem.may_hold[at] and not problem.may_lead[at]],
    }


def rows(problem: Problem) -> list[dict[str, Any]]:
    sizes = problem.size_bytes.tolist()
    return [{**row, "size_bytes": size} for row, size in zip(rows_of(problem, problem.now), sizes, strict=True)]


def in_pieces(spark: SparkSession, folder: Path, aims: object, given: list[dict[str, Any]], cuts: int) -> Any:
    """The document and the partitions that Spark comes to."""
    frame = spark.createDataFrame(given, ROW).repartition(cuts)
    found = Placing(asked.read(spark, aims, frame), most_arcs=0).run(str(folder / f"{cuts}"))
    written = spark.read.parquet(str(folder / f"{cuts}")).orderBy("topic", "partition")
    return found.document(), [row.asDict() for row in written.collect()]


def whole(problem: Problem) -> tuple[Any, Any]:
    plan = make(problem, most_arcs=0)
    document = plan.document()
    return document, document.pop("partitions")


@pytest.mark.parametrize("change", ["brokers come", "brokers leave", "racks are fewer than replicas"])
def test_pieces_come_to_the_same_as_the_whole(
    spark: SparkSession, tmp_path: Path, pieces_of_100: None, change: str
) -> None:
    problem = CHANGES[change]()
    # Written as operators read them: partitions in any order.
    given = rows(problem)[::-1]
    found = in_pieces(spark, tmp_path, aims_of(problem), given, 3)
    assert found == whole(problem)
    assert found == in_pieces(spark, tmp_path, aims_of(problem), given, 7)


@pytest.mark.parametrize("seed", [3, 8, 13, 21, 34])
def test_so_do_small_clusters_in_which_anything_may_be_wrong(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    given = question(seed)
    aims = {name: value for name, value in given.items() if name != "partitions"}
    assert in_pieces(spark, tmp_path, aims, given["partitions"], 2) == whole(read_problem(given))
