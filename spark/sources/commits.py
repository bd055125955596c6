"""Spark data source `treeline_commits`: decoded `__consumer_offsets` of clusters.

`spark.read.format("treeline_commits")` takes the option `clusters`, a JSON list of {"cluster",
"bootstrap_servers", "properties"}. Each task reads a share of one cluster's partitions of the topic, up to their
present ends. `spark.readStream` with the same option returns the present records and continues with new ones; the
stream's offset is {cluster: {partition: position}}.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from backend.domain.offsets import group_log
from backend.kafka.base.client_config import client_config
from backend.kafka.logs.log_ends import ends, partitions, stretch
from backend.kafka.logs.log_ranges import LogRange, messages
from spark.sources.batches import batch

NAME = "treeline_commits"
SCHEMA = (
    "cluster string not null, group string not null, topic string not null, partition int not null, "
    "offset bigint, metadata string, committed_at_ms bigint, "
    "log_partition int not null, log_offset bigint not null"
)
"""Schema; `offset` and later fields are null for a tombstone: the offset expired or was deleted."""
ARROW = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        ("offset", pa.int64()),
        ("metadata", pa.string()),
        ("committed_at_ms", pa.int64()),
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("log_offset", pa.int64(), nullable=False),
    ]
)
_TASKS_PER_CLUSTER = 2
_REQUEST_SECONDS = 15.0


class Commits(DataSource):
    """Data source `treeline_commits`; see the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return CommitReader(json.loads(self.options["clusters"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return CommitStream(json.loads(self.options["clusters"]))


class CommitReader(DataSourceReader):
    """Batch reader of whole `__consumer_offsets` topics."""

    def __init__(self, clusters: Sequence[dict[str, Any]]) -> None:
        self._clusters = clusters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares to read, two for each cluster. Raises KafkaCallFailed."""
        return [
            share
            for cluster in self._clusters
            for share in _shares(
                cluster, [_range(number, low, high) for number, (low, high) in _ends(cluster).items()]
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share. Raises KafkaCallFailed."""
        return _read(partition)


Positions = dict[str, dict[str, int]]
"""Positions by cluster and partition of the topic: the offset of the next record."""


class CommitStream(DataSourceStreamReader):
    """Stream reader of `__consumer_offsets` topics.

    An unreachable cluster stops the stream, which continues from its checkpoint when it is started again.
    """

    def __init__(self, clusters: Sequence[dict[str, Any]]) -> None:
        self._clusters = clusters

    def initialOffset(self) -> Positions:  # noqa: N802 - Spark's name
        """Return the beginnings of the topics. Raises KafkaCallFailed."""
        return {
            cluster["cluster"]: {str(number): low for number, (low, _) in _ends(cluster).items()}
            for cluster in self._clusters
        }

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:  # noqa: N802 - Spark's name
        """Return the present ends; the limit is ignored, since tasks hold little. Raises KafkaCallFailed."""
        found = dict(start)
        for cluster in self._clusters:
            config, name = client_config(cluster["bootstrap_servers"], cluster["properties"]), cluster["cluster"]
            # The topic is created when the first group commits; new partitions begin at 0.
            before = dict.fromkeys(partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS), 0)
            before |= {(group_log.INTERNAL_TOPIC, int(p)): at for p, at in start.get(name, {}).items()}
            found[name] = {str(p): at for (_, p), at in stretch(config, before, _REQUEST_SECONDS).items()}
        return found

    def partitions(self, start: Positions, end: Positions) -> Sequence[InputPartition]:
        """Return the shares between two offsets of the stream."""
        found = []
        for cluster in self._clusters:
            before, behind = start.get(cluster["cluster"], {}), end.get(cluster["cluster"], {})
            ranges = [_range(int(p), before.get(p, 0), at) for p, at in behind.items() if before.get(p, 0) < at]
            found += _shares(cluster, ranges)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one share. Raises KafkaCallFailed."""
        return _read(partition)


def _ends(cluster: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    config = client_config(cluster["bootstrap_servers"], cluster["properties"])
    places = partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS)
    return {number: found for (_, number), found in ends(config, places, _REQUEST_SECONDS).items()}


def _range(number: int, first: int, end: int) -> LogRange:
    return LogRange(log=number, topic=group_log.INTERNAL_TOPIC, partition=number, first=first, end=end)


def _shares(cluster: Mapping[str, Any], ranges: Sequence[LogRange]) -> list[InputPartition]:
    shares = [ranges[task::_TASKS_PER_CLUSTER] for task in range(_TASKS_PER_CLUSTER)]
    return [InputPartition((cluster, share)) for share in shares if share]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    cluster, ranges = partition.value
    config = client_config(cluster["bootstrap_servers"], cluster["properties"])
    for one, found in messages(config, ranges):
        rows = []
        for message in found:
            row = decoded(message.key(), message.value())
            if row is not None:
                rows.append((cluster["cluster"], *row, one.partition, message.offset()))
        if rows:
            yield batch(zip(*rows, strict=True), ARROW)


def decoded(
    key: bytes | None, value: bytes | None
) -> tuple[str, str, int, int | None, str | None, int | None] | None:
    """Decode a record to (group, topic, partition, offset, metadata, committed_at_ms).

    Returns None for other kinds of records, and for unreadable ones, since one of them must not hide all others.
    """
    try:
        record = group_log.offset_record(key, value)
    except group_log.Unreadable:
        return None
    if record is None:
        return None
    whose, what = record
    if what is None:
        return whose.group, whose.topic, whose.partition, None, None, None
    return whose.group, whose.topic, whose.partition, what.offset, what.metadata, what.committed_at_ms
