"""Made-up figures and messages of a stream, for pictures of its page: the gallery has no clusters."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any

import pytest

from backend.cluster_requests.stream_figures import ClusterFigures, FiguresPlace, FiguresReader
from backend.domain.records import copy_flags
from backend.domain.records.origin import Origin, encode
from backend.domain.topics.stream_figures import PartitionFigures, Rate, TopicFigures
from backend.kafka.search.message_reading import EndedBy
from backend.messages.facts import MessageFacts
from backend.messages.page_read import MessagePage
from backend.web.messages import messages_page


def stream_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the brokers of all clusters: each has the stream's topic, with records of the last minute."""
    monkeypatch.setattr(FiguresReader, "read", lambda *asked: tuple(map(_figures, asked[-1])))
    monkeypatch.setattr(messages_page, "_read", lambda *asked: _messages(asked[2]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _figures(place: FiguresPlace) -> ClusterFigures:
    late = sum(map(ord, place.cluster)) % 3
    partitions = tuple(
        PartitionFigures(
            partition=number,
            leader=1 + number % 3,
            replicas=(1, 2, 3),
            isr=(1, 2, 3) if (number, late) != (2, 1) else (1, 3),
            start_offset=1_200 * number,
            end_offset=36_192 + 1_200 * number - late,
            size_bytes=41_000_000 + 70_000 * number,
            disk_bytes=123_000_000 + 210_000 * number,
            newest_ms=_now_ms() - 1_000 * number - late,
        )
        for number in range(4)
    )
    found = TopicFigures(topic_id=f"id-{place.cluster}", partitions=partitions)
    rate = Rate(records_per_second=480.0 - late, over_seconds=15.0)
    return ClusterFigures(cluster=place.cluster, topic=place.topic, figures=found, rate=rate)


def _messages(facts: MessageFacts) -> MessagePage:
    items = [_message(facts, number) for number in range(12)]
    return MessagePage(
        stream=str(facts.stream),
        cluster=facts.cluster,
        items=items,
        next_start="before:36170",
        scanned_records=len(items),
        scanned_bytes=4_096,
        ended_by=EndedBy.LIMIT,
    )


def _message(facts: MessageFacts, number: int) -> Mapping[str, Any]:
    order = {"status": ("paid", "sent", "open")[number % 3]}
    is_copy = number % 4 == 0
    headers = []
    there, offset = "c2" if facts.cluster == "c1" else "c1", 35_988 - number
    if is_copy:
        origin = encode(Origin(1, facts.stream_id, number % 4, offset, 1))
        headers.append([facts.flags_header, copy_flags.encode(0b10).decode()])
        headers.append([facts.origin_header, base64.b64encode(origin).decode()])
    headers.append(["trace", f"{7_000 + 31 * number:x}"])
    return {
        "partition": number % 4,
        "offset": 36_191 - number,
        "timestamp_ms": _now_ms() - 210 * number,
        "key": f"order-{7_200 - number}",
        "value": order,
        "key_format": "text",
        "value_format": "avro",
        "schema_id": 2,
        "headers": headers,
        "copy_flags": "0010" if is_copy else "",
        "origin": {"cluster": there, "offset": offset, "incarnation": 1} if is_copy else None,
    }
