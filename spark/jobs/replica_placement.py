"""Where replicas go in a large cluster (docs/placement.md).

    spark-submit spark/jobs/replica_placement.py QUESTION.json PARTITIONS OUTPUT

`QUESTION.json` is what `treeline placement plan --input` reads, without the partitions: these are in PARTITIONS,
as Parquet or as JSON lines (`*.json`, `*.jsonl`), with the columns topic, partition, replicas and size_bytes.
Written are `OUTPUT/partitions` (Parquet: topic, partition, replicas) and `OUTPUT/plan.json`, printed too.

Exit codes: 0 computed, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from backend.placement.errors import PlacementInvalid
from backend.placement.placing import ARCS_ALONE
from backend.placement.reading import parse
from spark.placement import asked
from spark.placement.frames import Placing
from spark.session import session

_BATCH = 100_000
"""Partitions that a Python worker looks at in one go."""


def main(words: Sequence[str]) -> int:
    """As spark-submit starts it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", type=Path)
    parser.add_argument("partitions")
    parser.add_argument("output", type=Path)
    parser.add_argument("--master", help="Spark's; unset: that of spark-submit, or local[2].")
    parser.add_argument("--heap-megabytes", type=int, default=1500)
    parser.add_argument(
        "--most-arcs",
        type=int,
        default=ARCS_ALONE,
        help="Up to so many ways for replicas to go, partitions are looked at one by one, as a whole.",
    )
    given = parser.parse_args(words)
    spark = session(given.master, given.output / ".spark", given.heap_megabytes)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_BATCH))
    try:
        question = asked.read(spark, _aims(given.question), _partitions(spark, given.partitions))
        plan = Placing(question, given.most_arcs).run(str(given.output / "partitions"))
    except PlacementInvalid as error:
        file = given.partitions if isinstance(error, asked.PartitionsInvalid) else given.question
        print(f"{file}: {error}", file=sys.stderr)  # noqa: T201 - a program's output
        return 2
    finally:
        spark.stop()
    written = json.dumps(plan.document(), indent=1)
    (given.output / "plan.json").write_text(written + "\n")
    print(written)  # noqa: T201 - a program's output
    return 0


def _aims(file: Path) -> Any:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlacementInvalid(str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise PlacementInvalid(f"no JSON: {error}") from error


def _partitions(spark: SparkSession, path: str) -> DataFrame:
    is_json = path.endswith((".json", ".jsonl"))
    try:
        return spark.read.json(path) if is_json else spark.read.parquet(path)
    except (PySparkException, Py4JJavaError) as error:
        said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
        # It goes on for lines.
        raise asked.PartitionsInvalid(f"cannot be read: {said.partition(chr(10))[0]}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
