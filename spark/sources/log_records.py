"""Spark data source `treeline_log`: records of ranges of Kafka logs, and where each was born.

Neither keys nor values: what is asked of them is when and where. `spark.read.format("treeline_log")` with the
option `slices` (`slices.encode`); one task reads one slice. The JVM's Kafka source would give headers as they are,
and where a record was born is not in its header alone (`backend/domain/records/log_prefix.py`).

`spark.readStream` with the same option goes on reading, from the beginning of each range: see `LogStream`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from backend.domain.records.log_prefix import LogPrefix
from backend.domain.records.origin import Vector
from backend.kafka.base.client_config import client_config
from backend.kafka.logs.log_ends import stretch
from backend.kafka.logs.log_ranges import OPEN_END, LogRows, messages, prefix, row_adder
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
_MOST_OFFSETS = 200_000
"""Of a micro-batch: its records are in memory at once."""
_REQUEST_SECONDS = 15.0


class LogRecords(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(decode(self.options["slices"]))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        return LogStream(
            decode(self.options["slices"]),
            most_offsets=int(self.options.get("most_offsets", _MOST_OFFSETS)),
            foreign=frozenset(json.loads(self.options.get("foreign", "[]"))),
        )


class LogReader(DataSourceReader):
    """Reads slices, one a task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        """Raises ValueError if a range has no end."""
        if any(one.end == OPEN_END for each in slices for one, _ in each.ranges):
            raise ValueError("a range without an end is for streams; give it one")
        self._slices = slices

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises KafkaCallFailed."""
        slice_: Slice = partition.value
        return _batches(slice_, {one.log: prefix(one, born) for one, born in slice_.ranges})


Places = dict[str, dict[str, Any]]
"""log -> {"position": offset of the next record, "seen": {cluster number: {"incarnation", "offset"}}}: what has to
be known to judge the records from there on."""


class LogStream(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads logs on and on: each of `slices` from its first offset up to its end, or without one (`OPEN_END`).

    What lies before a record decides where it was born, so the stream's offset holds, besides the position in each
    log, the vector there; to know it, whoever says where a micro-batch ends must have read it. Hence the simple
    reader of Spark: one process beside the driver reads, judges and hands on, at most `most_offsets` at a time. A
    long backlog is a matter for the batch reader, whose tasks read side by side.

    The tree may grow while the stream goes on: at a number that is neither among the known origins nor in
    `foreign` it ends with UnknownOrigin, before the micro-batch; started again with what is known by then, it goes
    on from its checkpoint. At a log that ends before its position, cut off or made anew, it ends too.
    """

    def __init__(self, slices: Sequence[Slice], *, most_offsets: int, foreign: frozenset[int]) -> None:
        self._slices, self._most, self._foreign = slices, most_offsets, foreign
        self._last: dict[str, int] | None = None

    def initialOffset(self) -> Places:  # noqa: N802 - Spark's name
        """The beginnings of the ranges."""
        return {str(one.log): _place(one.first, born.seen) for each in self._slices for one, born in each.ranges}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What comes from now on is left for later. Raises KafkaCallFailed."""
        self._last = self._ends(self.initialOffset())

    def read(self, start: Places) -> tuple[Iterator[Any], Places]:
        """What is there now, and where the next reading begins. Raises KafkaCallFailed and UnknownOrigin."""
        places = {**start, **{log: place for log, place in self.initialOffset().items() if log not in start}}
        ends = self._ends(places)
        last = self._last or ends
        share = max(1, self._most // max(1, len(ends)))
        until = {log: min(end, last[log], places[log]["position"] + share) for log, end in ends.items()}
        return self._read(places, until)

    def readBetweenOffsets(self, start: Places, end: Places) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """The records of a micro-batch once more. Raises KafkaCallFailed and UnknownOrigin."""
        places = {**self.initialOffset(), **start}
        return self._read(places, {log: place["position"] for log, place in end.items()})[0]

    def _ends(self, places: Places) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in self._slices:
            config = client_config(each.bootstrap_servers, each.properties)
            at = {(one.topic, one.partition): places[str(one.log)]["position"] for one, _ in each.ranges}
            ends = stretch(config, at, _REQUEST_SECONDS)
            found |= {str(one.log): min(one.end, ends[one.topic, one.partition]) for one, _ in each.ranges}
        return found

    def _read(self, places: Places, until: Mapping[str, int]) -> tuple[Iterator[Any], Places]:
        found: list[pa.RecordBatch] = []
        after = dict(places)
        for each in self._slices:
            ranges, judges = [], {}
            for one, born in each.ranges:
                log = str(one.log)
                position, seen = places[log]["position"], _vector(places[log])
                if position < until.get(log, position):
                    part = replace(one, first=position, end=until[log])
                    judges[one.log] = prefix(part, replace(born, seen=seen), self._foreign.__contains__)
                    ranges.append((part, born))
            found += _batches(replace(each, ranges=ranges), judges)
            after |= {str(one.log): _place(one.end, judges[one.log].seen) for one, _ in ranges}
        return iter(found), after


def _place(position: int, seen: Vector) -> dict[str, Any]:
    reached = {str(number): {"incarnation": inc, "offset": offset} for number, (inc, offset) in seen.items()}
    return {"position": position, "seen": reached}


def _vector(place: Mapping[str, Any]) -> Vector:
    return {int(number): (one["incarnation"], one["offset"]) for number, one in place["seen"].items()}


def _batches(slice_: Slice, judges: Mapping[int, LogPrefix]) -> Iterator[pa.RecordBatch]:
    config = client_config(slice_.bootstrap_servers, slice_.properties)
    rows = LogRows()
    adders = {one: row_adder(rows, one.log, judges[one.log], born) for one, born in slice_.ranges}
    for one, found in messages(config, [one for one, _ in slice_.ranges]):
        add = adders[one]
        for message in found:
            add(message)
        if len(rows.offset) >= _BATCH_RECORDS:
            yield batch(rows.columns, ARROW)
            rows.clear()
    if rows.offset:
        yield batch(rows.columns, ARROW)
