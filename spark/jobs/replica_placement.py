"""Compute a replica placement plan for a large cluster (docs/placement.md).

    spark-submit spark/jobs/replica_placement.py QUESTION.json PARTITIONS OUTPUT

QUESTION.json is the document that `treeline placement plan --input` reads, without partitions. PARTITIONS is a
Parquet file or JSON lines (*.json, *.jsonl) with the columns topic, partition, replicas and size_bytes.
The job writes OUTPUT/partitions (Parquet: topic, partition, replicas) and OUTPUT/plan.json, and prints the plan.

Exit codes: 0 success, 2 invalid input.
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
from backend.placement.partition_placement import ARCS_ALONE
from backend.placement.reading import parse
from spark.placement import placement_request
from spark.placement.frames import Placing
from spark.session import session

_BATCH = 100_000
"""Number of partitions that a Python worker handles in one batch."""


def main(words: Sequence[str]) -> int:
    """Run the job as spark-submit starts it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", type=Path, help="JSON file with brokers and options.")
    parser.add_argument("partitions", help="Parquet file or JSON lines with the partitions.")
    parser.add_argument("output", type=Path, help="Directory for the results.")
    parser.add_argument(
        "--master", help="Spark master URL (default: the one given to spark-submit, else local[2])."
    )
    parser.add_argument("--heap-megabytes", type=int, default=1500, help="Heap size of the JVM in MB.")
    parser.add_argument(
        "--most-arcs",
        type=int,
        default=ARCS_ALONE,
        help="Largest flow, in arcs, that is solved as a whole, partition by partition.",
    )
    given = parser.parse_args(words)
    spark = session(given.master, given.output / ".spark", given.heap_megabytes)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_BATCH))
    try:
        question = placement_request.read(spark, _aims(given.question), _partitions(spark, given.partitions))
        plan = Placing(question, given.most_arcs).run(str(given.output / "partitions"))
    except PlacementInvalid as error:
        file = given.partitions if isinstance(error, placement_request.PartitionsInvalid) else given.question
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
        raise PlacementInvalid(f"invalid JSON: {error}") from error


def _partitions(spark: SparkSession, path: str) -> DataFrame:
    is_json = path.endswith((".json", ".jsonl"))
    try:
        return spark.read.json(path) if is_json else spark.read.parquet(path)
    except (PySparkException, Py4JJavaError) as error:
        said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
        # The message has many lines; the first one says what is wrong.
        raise placement_request.PartitionsInvalid(f"cannot be read: {said.partition(chr(10))[0]}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
