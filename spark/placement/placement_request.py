"""Reading of a placement request on Spark: options, brokers, and the partitions as a frame of PARTITION."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from backend.placement.errors import PlacementInvalid
from backend.placement.problem import Brokers
from backend.placement.reading import HIGHEST, MOST, has_only
from backend.placement.request_document import OF_A_PARTITION, read_aims
from spark.placement import pieces

_NEEDED = "topic string, partition bigint, replicas array<bigint>"
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TYPES = {
    "topic": ("a topic's name", ("string",)),
    "partition": ("a whole number", _WHOLE),
    "replicas": ("a list of whole numbers", tuple(f"array<{each}>" for each in _WHOLE)),
    "size_bytes": ("a whole number", _WHOLE),
}
_NO_JSON = "_corrupt_record"
"""Name of Spark's column for lines that it could not parse."""
_PER_TASK = 100_000
"""Approximate number of partitions that one task handles."""


class PartitionsInvalid(PlacementInvalid):
    """The partitions are invalid, not the request document."""


@dataclass(frozen=True)
class PlacementRequest:
    """A placement request whose partitions are in a frame."""

    brokers: Brokers
    topics: tuple[str, ...]
    """Topic names, sorted; partitions refer to a topic by its index."""
    partitions: DataFrame
    count: int
    tasks: int
    """Number of tasks that the work is divided into."""

    @property
    def names(self) -> DataFrame:
        """Return the names of the topics as a frame of (topic, name)."""
        spark = self.partitions.sparkSession
        return spark.createDataFrame(list(enumerate(self.topics)), "topic int, name string")


def read(spark: SparkSession, aims: object, rows: DataFrame) -> PlacementRequest:
    """Read a request from its options document and the frame of its partitions.

    `aims` is the document that `request_document.read_aims` reads; `rows` has the columns topic, partition,
    replicas, and size_bytes if known. Raises PlacementInvalid, and PartitionsInvalid for `rows`.
    """
    if not rows.columns:
        # Spark infers no columns for an empty file of JSON lines.
        rows = spark.createDataFrame([], _NEEDED)
    _check_columns(dict(rows.dtypes))
    counts: dict[str | None, int] = {row[0]: row[1] for row in rows.groupBy("topic").count().collect()}
    if None in counts:
        raise PartitionsInvalid("a partition has no topic")
    count = sum(counts.values())
    tasks = max(4, -(-count // _PER_TASK))
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    names = sorted(name for name in counts if name is not None)
    found = read_aims(aims, names)
    starts, at = [], 0
    for number, name in enumerate(names):
        starts.append((name, number, at, found.factors.get(name), name in found.excluded))
        at += counts[name]
    topics = spark.createDataFrame(starts, "name string, number int, start long, factor int, excluded boolean")
    frame = _frame(rows, topics).persist()
    _refuse(frame)
    holding = [row[0] for row in frame.select(f.explode("now")).distinct().collect()]
    return PlacementRequest(found.brokers(holding), tuple(names), frame.select(*pieces.COLUMNS), count, tasks)


def _check_columns(types: dict[str, str]) -> None:
    if _NO_JSON in types:
        raise PartitionsInvalid("some lines are not JSON objects")
    lacking = [name for name in ("topic", "partition", "replicas") if name not in types]
    if lacking:
        raise PartitionsInvalid(f"column {lacking[0]} is missing; found: {', '.join(types)}")
    try:
        has_only(types, OF_A_PARTITION, "")
    except PlacementInvalid as error:
        raise PartitionsInvalid(f"column {str(error).removeprefix('/')}") from None
    for name, (what, known) in _TYPES.items():
        if types.get(name, known[0]) not in known:
            raise PartitionsInvalid(f"column {name} must be {what}, not {types[name]}")


def _frame(rows: DataFrame, topics: DataFrame) -> DataFrame:
    size = f.col("size_bytes") if "size_bytes" in rows.columns else f.lit(0)
    given = rows.select(
        f.col("topic").alias("name"),
        f.col("partition").cast("long").alias("partition"),
        f.col("replicas").cast("array<long>").alias("now"),
        f.coalesce(size.cast("long"), f.lit(0)).alias("size_bytes"),
    )
    in_topic = Window.partitionBy("name").orderBy("partition")
    numbered = given.withColumn("rank", f.row_number().over(in_topic)).withColumn(
        "is_doubled", f.lag("partition").over(in_topic).eqNullSafe(f.col("partition"))
    )
    return numbered.join(f.broadcast(topics), "name").select(
        (f.col("start") + f.col("rank") - 1).alias("p"),
        f.col("number").alias("topic"),
        f.col("partition").alias("number"),
        f.coalesce("factor", f.size("now")).alias("wanted"),
        "size_bytes",
        f.col("excluded").alias("is_fixed"),
        "now",
        f.concat_ws("-", "name", "partition").alias("called"),
        _flaw().alias("flaw"),
    )


def _flaw() -> Column:
    """Return a column that describes what is wrong with a partition; null for a valid one."""
    now, number = f.col("now"), f.col("partition")
    strange = f.exists(now, lambda broker: broker.isNull() | ~broker.between(0, HIGHEST))
    up_to = f"must be from 0 to {HIGHEST}"
    return (
        f.when(number.isNull() | ~number.between(0, HIGHEST), f.lit(f"its number {up_to}"))
        .when(f.col("is_doubled"), f.lit("it is listed twice"))
        .when(now.isNull() | (f.size(now) == 0), f.lit("it has no replica"))
        .when(strange, f.lit(f"a broker's id {up_to}"))
        .when(f.size(f.array_distinct(now)) < f.size(now), f.lit("it names a broker twice"))
        .when(~f.col("size_bytes").between(0, MOST), f.lit(f"its size_bytes must be from 0 to {MOST}"))
    )


def _refuse(frame: DataFrame) -> None:
    flawed = frame.filter(f.col("flaw").isNotNull())
    some = flawed.orderBy("p").select("called", "flaw").limit(1).collect()
    if some:
        others = flawed.count() - 1
        more = f" ({others:,} more are invalid)" if others else ""
        raise PartitionsInvalid(f"{some[0]['called']}: {some[0]['flaw']}{more}")
