"""Spark data source `treeline_log`: records in ranges of Kafka logs, with the origin of each.

It reads neither keys nor values, only positions, times and origins. `spark.read.format("treeline_log")` takes the
option `slices` (`slices.encode`); each task reads one slice. Spark's own Kafka source would return the headers,
which do not determine a record's origin alone (`backend/domain/records/log_prefix.py`).

`spark.readStream` with the same option reads continuously from the beginning of each range; see `LogStream`.
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
"""Schema; `reached` is the record's offset where it was produced, null like origin and incarnation if unknown."""
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
"""Largest micro-batch in offsets, since its records are in memory at once."""
_REQUEST_SECONDS = 15.0


class LogRecords(DataSource):
    """Data source `treeline_log`; see the module."""

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
    """Batch reader of slices, one per task."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        """Raise ValueError if a range has no end."""
        if any(one.end == OPEN_END for each in slices for one, _ in each.ranges):
            raise ValueError("a range without an end can only be read as a stream; set its end")
        self._slices = slices

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice. Raises KafkaCallFailed."""
        slice_: Slice = partition.value
        return _batches(slice_, {one.log: prefix(one, origin_context) for one, origin_context in slice_.ranges})


Places = dict[str, dict[str, Any]]
"""Places by log: {"position": offset of the next record, "seen": {cluster number: {"incarnation", "offset"}}}.

A place holds what must be known to determine the origins of the records after it.
"""


class LogStream(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader of logs: each range of `slices` from its first offset to its end, or without end (`OPEN_END`).

    A record's origin depends on the records before it, so the stream's offset holds, besides the position in each
    log, the origin vector there, and only a process that has read a micro-batch knows its end. Hence Spark's
    simple reader: one process beside the driver reads at most `most_offsets` records at a time, determines
    origins, and passes them on. A long backlog is better read with the batch reader, whose tasks read in parallel.

    The tree may grow meanwhile: a cluster number that is neither among the known origins nor in `foreign` ends the
    stream with UnknownOrigin before the micro-batch; restarted with updated origins, it continues from its
    checkpoint. A log that ends before its position, truncated or recreated, ends the stream, too.
    """

    def __init__(self, slices: Sequence[Slice], *, most_offsets: int, foreign: frozenset[int]) -> None:
        self._slices, self._most, self._foreign = slices, most_offsets, foreign
        self._last: dict[str, int] | None = None

    def initialOffset(self) -> Places:  # noqa: N802 - Spark's name
        """Return the beginnings of the ranges."""
        return {
            str(one.log): _place(one.first, origin_context.seen)
            for each in self._slices
            for one, origin_context in each.ranges
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Leave records that arrive from now on for later. Raises KafkaCallFailed."""
        self._last = self._ends(self.initialOffset())

    def read(self, start: Places) -> tuple[Iterator[Any], Places]:
        """Return the available records and the next place. Raises KafkaCallFailed and UnknownOrigin."""
        places = {**start, **{log: place for log, place in self.initialOffset().items() if log not in start}}
        ends = self._ends(places)
        last = self._last or ends
        share = max(1, self._most // max(1, len(ends)))
        until = {log: min(end, last[log], places[log]["position"] + share) for log, end in ends.items()}
        return self._read(places, until)

    def readBetweenOffsets(self, start: Places, end: Places) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """Return the records of a micro-batch again. Raises KafkaCallFailed and UnknownOrigin."""
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
            for one, origin_context in each.ranges:
                log = str(one.log)
                position, seen = places[log]["position"], _vector(places[log])
                if position < until.get(log, position):
                    part = replace(one, first=position, end=until[log])
                    judges[one.log] = prefix(part, replace(origin_context, seen=seen), self._foreign.__contains__)
                    ranges.append((part, origin_context))
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
    adders = {
        one: row_adder(rows, one.log, judges[one.log], origin_context) for one, origin_context in slice_.ranges
    }
    for one, found in messages(config, [one for one, _ in slice_.ranges]):
        add = adders[one]
        for message in found:
            add(message)
        if len(rows.offset) >= _BATCH_RECORDS:
            yield batch(rows.columns, ARROW)
            rows.clear()
    if rows.offset:
        yield batch(rows.columns, ARROW)
