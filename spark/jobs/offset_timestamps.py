"""Compute timestamps and origin vectors of committed offsets (decision 20).

    spark-submit spark/jobs/offset_timestamps.py REQUEST.json OUTPUT

REQUEST.json lists clusters and logs (docs/offsets.md). The job reads the groups' committed offsets and each log
once, and writes one JSON line for each committed offset to files in OUTPUT.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from spark import transforms
from spark.session import session
from spark.sources import commits, log_records, slices
from spark.sources.slices import Slice

TASKS_PER_CLUSTER = 2
_LOG = ("cluster", "topic", "partition", "log")


def records(spark: SparkSession, parts: Sequence[Slice]) -> DataFrame:
    """Return the records of the given ranges."""
    cut = [each for each in slices.cut(parts, TASKS_PER_CLUSTER) if each.size]
    if not cut:
        return spark.createDataFrame([], log_records.SCHEMA)
    return spark.read.format(log_records.NAME).option("slices", slices.encode(cut)).load()


def all_commits(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    """Return the latest commit of every group with the number of its log.

    Commits to topics that are not among the request's logs are left out.
    """
    read = spark.read.format(commits.NAME).option("clusters", json.dumps(request["clusters"])).load()
    logs = spark.createDataFrame(
        [(*(log[name] for name in _LOG), log["range"]["first"], log["range"]["end"]) for log in request["logs"]],
        "cluster string, topic string, partition int, log int, low long, end long",
    )
    joined = transforms.latest(read).join(f.broadcast(logs), ["cluster", "topic", "partition"])
    # A group may have committed an offset outside the log.
    return joined.withColumn("at", f.greatest("low", f.least("offset", "end"))).drop("low", "end")


def whole(request: dict[str, Any]) -> list[Slice]:
    """Return slices that cover every log of a request from its first record."""
    by_cluster: dict[str, list[Any]] = {}
    for log in request["logs"]:
        by_cluster.setdefault(log["cluster"], []).append([log["range"], log["born"]])
    return slices.parsed(
        {**cluster, "ranges": by_cluster.get(cluster["cluster"], [])} for cluster in request["clusters"]
    )


def main(words: Sequence[str]) -> int:
    """Run the job as spark-submit starts it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("request", type=Path, help="JSON file that lists clusters and logs.")
    parser.add_argument("output", help="Directory for the results.")
    parser.add_argument(
        "--master", help="Spark master URL (default: the one given to spark-submit, else local[2])."
    )
    parser.add_argument("--heap-megabytes", type=int, default=1500, help="Heap size of the JVM in MB.")
    given = parser.parse_args(words)
    request = json.loads(given.request.read_text())
    spark = session(given.master, Path(given.output) / ".spark", given.heap_megabytes)
    committed = all_commits(spark, request).persist()
    asked = committed.select("log", f.col("at").alias("offset")).distinct().persist()
    found = transforms.segments(records(spark, whole(request)), asked).persist()
    # Count while writing: a separate count would compute everything again.
    written = Observation()
    stands = transforms.answers(found, asked).withColumnRenamed("offset", "at")
    results = committed.join(stands, ["log", "at"]).drop("at")
    results = results.observe(written, f.count(f.lit(1)).alias("groups"))
    results.write.mode("overwrite").json(f"{given.output}/groups")
    print(json.dumps({"groups": written.get["groups"], "segments": found.count()}))  # noqa: T201 - a program's output
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
