"""Records that librdkafka returns when a cluster is given up: which may have been sent, and which surely not.

A purge reports a record as in flight (_PURGE_INFLIGHT) or as queued (_PURGE_QUEUE). But a record that was sent,
whose connection broke, and which waits for its retry is queued as well, and may be in the cluster's log.
librdkafka knows the difference (`rd_kafka_message_status`), but its Python binding does not expose it. Its
statistics do: the records of a partition are sent in order, so with

    sent          txmsgs: number of records sent, each retry counted
    acknowledged  acked_msgid less those that failed: number of sent records known to be in the log

the first (sent - acknowledged - in flight) of the queued records may have been sent, and no other. Retries only
raise that number: a record is called unknown too often rather than sent twice.

A purge reports in no order: records that librdkafka's thread has not taken over yet come before all others. So
records are sorted back into the order in which they were handed over.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from treeline_client.errors import OutcomeUnknown
from treeline_client.records import Record

NOT_SENT = KafkaError._PURGE_QUEUE
ON_ITS_WAY = KafkaError._PURGE_INFLIGHT

_Place = tuple[str | None, int | None]
_Report = Callable[[Record, KafkaError, Message], None]


class ReturnedRecords:
    """Records of one cluster that is given up."""

    def __init__(self) -> None:
        self._queued: list[tuple[Record, Message]] = []
        self._on_their_way: list[tuple[Record, Message]] = []

    def take(self, record: Record, code: int, message: Message) -> bool:
        """Take a record from its delivery report; return False if the report is about something else."""
        if code not in (NOT_SENT, ON_ITS_WAY):
            return False
        (self._queued if code == NOT_SENT else self._on_their_way).append((record, message))
        return True

    @property
    def needs_statistics(self) -> bool:
        """Return whether there are queued records to classify."""
        return bool(self._queued)

    def sort(
        self, statistics: str | None, failed: Counter[_Place], cluster: str, resend: bool, report: _Report
    ) -> tuple[list[Record], int]:
        """Return the records to send elsewhere, in order, and the number of unknown outcomes.

        Unknown records are reported, or among those to send again (`resend`). Without statistics, all records
        that had a partition may have been sent.
        """
        unknown: list[tuple[Record, Message]] = list(self._on_their_way)
        never: list[Record] = []
        may_be = _may_have_been_sent(statistics, failed) if statistics else None
        for _, message in self._on_their_way:
            if may_be is not None:
                may_be[message.topic(), message.partition()] -= 1
        for record, message in sorted(self._queued, key=_handed_over):
            place = (message.topic(), message.partition())
            if place[1] is None or place[1] < 0:
                never.append(record)  # it had no partition yet
            elif may_be is None or may_be[place] > 0:
                unknown.append((record, message))
                if may_be is not None:
                    may_be[place] -= 1
            else:
                never.append(record)
        unknown.sort(key=_handed_over)
        if resend:
            return sorted([record for record, _ in unknown] + never, key=_number), len(unknown)
        for record, message in unknown:
            report(record, OutcomeUnknown(cluster), message)
        return never, len(unknown)


def _number(record: Record) -> int:
    return record.number


def _handed_over(given_back: tuple[Record, Message]) -> int:
    return given_back[0].number


def _may_have_been_sent(statistics: str, failed: Counter[_Place]) -> defaultdict[_Place, int]:
    found: defaultdict[_Place, int] = defaultdict(int)
    for topic, figures in json.loads(statistics).get("topics", {}).items():
        for number, partition in figures.get("partitions", {}).items():
            place = (topic, int(number))
            acknowledged = max(partition.get("acked_msgid", 0) - failed[place], 0)
            found[place] = partition.get("txmsgs", 0) - acknowledged
    return found
