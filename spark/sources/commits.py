"""Spark data source `treeline_commits`: decoded `__consumer_offsets` of clusters.

`spark.read.format("treeline_commits")` with the option `clusters`: JSON list of {"cluster", "bootstrap_servers",
"properties"}. One task reads one cluster's share of the topic's partitions, up to where they end now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from backend.domain import group_log
from backend.kafka.client_config import client_config
from backend.kafka.log_ends import ends, partitions
from backend.kafka.log_ranges import LogRange, messages
from spark.sources.batches import batch

NAME = "treeline_commits"
SCHEMA = (
    "cluster string not null, group string not null, topic string not null, partition int not null, "
    "offset bigint, metadata string, committed_at_ms bigint, "
    "log_partition int not null, log_offset bigint not null"
)
"""`offset` and what follows it are null for a tombstone: the offset expired, or was deleted."""
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
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return CommitReader(json.loads(self.options["clusters"]))


class CommitReader(DataSourceReader):
    """Reads whole topics of offsets."""

    def __init__(self, clusters: Sequence[dict[str, Any]]) -> None:
        self._clusters = clusters

    def partitions(self) -> Sequence[InputPartition]:
        """Raises KafkaCallFailed."""
        found = []
        for cluster in self._clusters:
            config = client_config(cluster["bootstrap_servers"], cluster["properties"])
            places = partitions(config, group_log.INTERNAL_TOPIC, _REQUEST_SECONDS)
            ranges = [
                LogRange(log=number, topic=topic, partition=number, first=low, end=high)
                for (topic, number), (low, high) in ends(config, places, _REQUEST_SECONDS).items()
            ]
            shares = [ranges[task::_TASKS_PER_CLUSTER] for task in range(_TASKS_PER_CLUSTER)]
            found += [InputPartition((cluster, share)) for share in shares if share]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises KafkaCallFailed."""
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
    """(group, topic, partition, offset, metadata, committed at) of a record; None if it is none of an offset, or
    not readable: one such must not keep all others from being seen."""
    try:
        whose = group_log.offset_key(key)
        if whose is None:
            return None
        what = group_log.offset_value(value)
    except group_log.Unreadable:
        return None
    if what is None:
        return whose.group, whose.topic, whose.partition, None, None, None
    return whose.group, whose.topic, whose.partition, what.offset, what.metadata, what.committed_at_ms
