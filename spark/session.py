"""The Spark session of a process: local with few resources, or a client of a cluster's master."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.sources.commits import Commits
from spark.sources.log_records import LogRecords


def session(master: str | None, folder: Path, heap_megabytes: int, *, few_rows: bool = False) -> SparkSession:
    """Return the process's session with Treeline's data sources; `folder` is for Spark's temporary files.

    `master`: None for the one given to spark-submit.

    `few_rows`: for many short runs, in which compiling a plan takes longer than interpreting it.
    """
    _drop_dead_session()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Settings of the builder override those of spark-submit, which has started the JVM already.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    elsewhere = submitted or (master or "").startswith("spark://")
    builder = SparkSession.builder.appName("treeline")
    if master is not None or not submitted:
        builder = builder.master(master or "local[2]")
    for key, value in {
        **(_FEW_ROWS if few_rows else {}),
        "spark.driver.memory": f"{heap_megabytes}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m "
        # A JVM without memory would live on and answer nothing; one that has exited is started again.
        "-XX:+ExitOnOutOfMemoryError",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "blocks"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1" if few_rows else "2",
        # With frames of a few rows, adaptive execution costs more than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.worker.reuse": "true",
    }.items():
        if not (elsewhere and key in _LOCAL_ONLY):
            builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    found.dataSource.register(LogRecords)
    found.dataSource.register(Commits)
    return found


def _drop_dead_session() -> None:
    """Drop PySpark's session if its JVM has exited, perhaps killed for its memory.

    PySpark would otherwise return that session, which never answers.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        SparkSession._instantiatedSession = None
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


_FEW_ROWS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_LOCAL_ONLY = frozenset({"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"})
