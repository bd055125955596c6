"""Placement in pieces equals placement as a whole, however the partitions are divided."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backend.placement.documents import rows_of
from backend.placement.errors import PlacementInvalid
from backend.placement.plan import make
from backend.placement.problem import GONE, Problem
from backend.placement.request_document import read_problem
from backend.settings import PROJECT_ROOT
from spark.jobs import replica_placement
from spark.placement import placement_request
from spark.placement.frames import Placing
from spark.placement.placement_request import PartitionsInvalid
from tests.nightly import some_now
from tests.support.domain.placement_instances import question
from tests.unit.placement.test_groups import CHANGES

ROW = "topic string, partition int, replicas array<int>, size_bytes long"
LONG_ROW = "topic string, partition long, replicas array<long>, size_bytes long"


_BATCH, _TASKS = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.shuffle.partitions"


@pytest.fixture(autouse=True)
def set_back(spark: SparkSession) -> Iterator[None]:
    """Restore the session settings that a placement changes, since other tests share the session."""
    before = {name: spark.conf.get(name) for name in (_BATCH, _TASKS)}
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def pieces_of_100(spark: SparkSession) -> None:
    """Force many batches although partitions are few."""
    spark.conf.set(_BATCH, "100")


def aims_of(problem: Problem) -> dict[str, Any]:
    """Return the request without its partitions."""
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
    """Return the document and the partitions that Spark computes."""
    frame = spark.createDataFrame(given, ROW).repartition(cuts)
    found = Placing(placement_request.read(spark, aims, frame), most_arcs=0).run(str(folder / f"{cuts}"))
    written = spark.read.parquet(str(folder / f"{cuts}")).orderBy("topic", "partition")
    return found.document(), [row.asDict() for row in written.collect()]


def whole(problem: Problem) -> tuple[Any, Any]:
    plan = make(problem, most_arcs=0)
    document = plan.document()
    return document, document.pop("partitions")


@pytest.mark.parametrize(
    "change",
    [
        "racks are fewer than replicas",
        "brokers come to many racks",
        "brokers leave",
        "racks are new, in any order",
    ],
)
@pytest.mark.nightly
def test_pieces_come_to_the_same_as_the_whole(
    spark: SparkSession, tmp_path: Path, pieces_of_100: None, change: str
) -> None:
    problem = CHANGES[change]()
    # Operators list partitions in any order.
    given = rows(problem)[::-1]
    found = in_pieces(spark, tmp_path, aims_of(problem), given, 3)
    assert found == whole(problem)
    assert found == in_pieces(spark, tmp_path, aims_of(problem), given, 7)


@pytest.mark.parametrize(
    ("seed", "more"),
    [
        # Replicas share racks without need, brokers lead that may not, and sizes exceed 64 bits in sum.
        (226, {"no_leaders": [4, 12, 22, 24, 25]}),
        *(pytest.param(each, {}, marks=pytest.mark.nightly) for each in (3, 8, 13, 21, 34)),
    ],
)
def test_so_do_small_clusters_in_which_anything_may_be_wrong(
    spark: SparkSession, tmp_path: Path, seed: int, more: dict[str, Any]
) -> None:
    given = {**question(seed), **more}
    if more:
        for row in given["partitions"]:
            row["size_bytes"] += 2**62 - 1000
    aims = {name: value for name, value in given.items() if name != "partitions"}
    expected = whole(read_problem(given))
    assert in_pieces(spark, tmp_path, aims, given["partitions"], 2) == expected
    if more:
        assert [each["constraint"] for each in expected[0]["violations"]] == ["leaders"]
        assert expected[0]["moved_bytes"] > 2**63


AIMS = {"brokers": [{"id": 1, "rack": "a"}, {"id": 2, "rack": "b"}]}
GOOD = {"topic": "t", "partition": 0, "replicas": [1, 2], "size_bytes": 5}


@some_now(
    "wrong, said",
    [
        ({"replicas": [1, 1]}, "t-1: it names a broker twice"),
        ({"replicas": []}, "t-1: it has no replica"),
        ({"replicas": None}, "t-1: it has no replica"),
        ({"replicas": [1, -2]}, "t-1: a broker's id must be from 0 to"),
        ({"partition": 0}, "t-0: it is listed twice"),
        ({"partition": -1}, "t--1: its number must be from 0 to"),
        ({"size_bytes": -5}, "t-1: its size_bytes must be from 0 to"),
        ({"topic": None}, "a partition has no topic"),
        ({"replicas": [1, 2**31]}, "t-1: a broker's id must be from 0 to 2147483647"),
        ({"size_bytes": 2**62 + 1}, "t-1: its size_bytes must be from 0 to 4611686018427387904"),
    ],
    now=(0, 4),
)
def test_what_is_wrong_with_a_partition_is_said(spark: SparkSession, wrong: dict[str, Any], said: str) -> None:
    frame = spark.createDataFrame([GOOD, {**GOOD, "partition": 1, **wrong}], LONG_ROW)
    with pytest.raises(PartitionsInvalid) as refused:
        placement_request.read(spark, AIMS, frame)
    assert said in str(refused.value)


def test_a_column_that_is_missing_is_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame([GOOD], ROW).drop("replicas")
    with pytest.raises(PartitionsInvalid, match="column replicas is missing; found: topic, partition"):
        placement_request.read(spark, AIMS, frame)


@pytest.mark.parametrize(
    ("column", "schema", "said"),
    [
        ({"size": 5}, "size long", "column size: unknown field; did you mean size_bytes?"),
        ({"topic": 7}, "topic long", "column topic must be a topic's name, not bigint"),
        (
            {"replicas": [1.0]},
            "replicas array<double>",
            "column replicas must be a list of whole numbers, not",
        ),
        ({"size_bytes": 0.5}, "size_bytes double", "column size_bytes must be a whole number, not double"),
    ],
)
def test_a_column_that_is_another_one_is_refused(
    spark: SparkSession, column: dict[str, Any], schema: str, said: str
) -> None:
    others = [each for each in ROW.split(", ") if each.split()[0] not in column]
    frame = spark.createDataFrame([{**GOOD, **column}], ", ".join([*others, schema]))
    with pytest.raises(PartitionsInvalid, match=said):
        placement_request.read(spark, AIMS, frame)


@pytest.mark.parametrize("wish", ["target_broker", "reassignment"])
def test_a_wish_that_is_not_understood_is_refused(spark: SparkSession, wish: str) -> None:
    with pytest.raises(PlacementInvalid, match=f"^/{wish}: unknown field"):
        placement_request.read(spark, {**AIMS, wish: [1]}, spark.createDataFrame([GOOD], ROW))


@pytest.fixture
def job_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch the job so that it uses this session and leaves it open."""
    monkeypatch.setattr(replica_placement, "session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


@some_now(
    "question, partitions, said",
    [
        (AIMS, None, "partitions.jsonl: cannot be read: [PATH_NOT_FOUND]"),
        (AIMS, "{oops", "partitions.jsonl: some lines are not JSON objects"),
        (AIMS, json.dumps({**GOOD, "replicas": [1, 1]}), "partitions.jsonl: t-0: it names a broker twice"),
        ({**AIMS, "target_brokers": [9]}, json.dumps(GOOD), "question.json: /target_brokers: 9 not among the"),
        (None, json.dumps(GOOD), "question.json: No such file or directory"),
    ],
    now=(0, 3),
)
def test_the_job_blames_the_file_that_is_at_fault(
    job_here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], question: Any, partitions: Any, said: str
) -> None:
    if question is not None:
        (tmp_path / "question.json").write_text(json.dumps(question))
    if partitions is not None:
        (tmp_path / "partitions.jsonl").write_text(partitions)
    words = [str(tmp_path / each) for each in ("question.json", "partitions.jsonl", "out")]
    assert replica_placement.main(words) == 2
    assert f"{tmp_path}/{said}" in capsys.readouterr().err


def test_no_partitions_are_planned_for_as_by_the_command(job_here: None, tmp_path: Path) -> None:
    (tmp_path / "question.json").write_text(json.dumps(AIMS))
    (tmp_path / "partitions.jsonl").touch()
    words = [str(tmp_path / each) for each in ("question.json", "partitions.jsonl", "out")]
    assert replica_placement.main(words) == 0
    expected, _ = whole(read_problem({**AIMS, "partitions": []}))
    assert json.loads((tmp_path / "out" / "plan.json").read_text()) == expected


def run_job(folder: Path, aims: object, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "question.json").write_text(json.dumps(aims))
    job = [sys.executable, "spark/jobs/replica_placement.py", str(folder / "question.json")]
    words = [*job, str(folder / "partitions.jsonl"), str(folder / "out"), "--heap-megabytes", "500", *more]
    return subprocess.run(words, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_the_job_writes_the_plan_that_the_command_prints(tmp_path: Path) -> None:
    """The job plans a cluster from a file of JSON lines, and reports what is wrong with a request."""
    given = question(8)
    lines = [json.dumps(row) for row in given.pop("partitions")]
    (tmp_path / "partitions.jsonl").write_text("\n".join(lines))
    done = run_job(tmp_path, given)
    assert done.returncode == 0, done.stderr
    document = make(read_problem({**given, "partitions": [json.loads(line) for line in lines]})).document()
    expected = {name: value for name, value in document.items() if name != "partitions"}
    assert json.loads(done.stdout) == json.loads((tmp_path / "out" / "plan.json").read_text()) == expected
    refused = run_job(tmp_path, {**given, "target_brokers": [777]})
    assert refused.returncode == 2 and "777" in refused.stderr and "Traceback" not in refused.stderr
