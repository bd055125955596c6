"""Spark data source `treeline_log`: records of ranges of Kafka logs, and where each was born.

Neither keys nor values: what is asked of them is when and where. `spark.read.format("treeline_log")` with the
option `slices` (`slices.encode`); one task reads one slice. The JVM's Kafka source would give headers as they are,
and where a record was born is not in its header alone (`backend/domain/log_prefix.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from backend.kafka.client_config import client_config
from backend.kafka.log_ranges import LogRows, messages, prefix, row_adder
from spark.sources.batches import batch
from spark.sources.slices import Slice, decode

NAME = "treeline_log"
SCHEMA = (
    "log int not null, offset bigint not null, timestamp_ms bigint not null, "
    "origin int, incarnation bigint, reached bigint"
)
"""`reached`: the record's offset on the cluster where it was born; null as its origin and incarnation if
unknown."""
ARROW = pa.schema(
    [
        pa.field("log", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        ("origin", pa.int32()),
        ("incarnation", pa.int64()),
        ("reached", pa.int64()),
    ]
)
_BATCH_RECORDS = 20_000


class LogRecords(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(decode(self.options["slices"]))


class LogReader(DataSourceReader):
    """Reads slices, one a task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises KafkaCallFailed."""
        slice_: Slice = partition.value
        config = client_config(slice_.bootstrap_servers, slice_.properties)
        rows = LogRows()
        adders = {one: row_adder(rows, one.log, prefix(one, born), born) for one, born in slice_.ranges}
        for one, found in messages(config, [one for one, _ in slice_.ranges]):
            add = adders[one]
            for message in found:
                add(message)
            if len(rows.offset) >= _BATCH_RECORDS:
                yield batch(rows.columns, ARROW)
                rows.clear()
        if rows.offset:
            yield batch(rows.columns, ARROW)
