"""Answers of a trace about clusters without the record: unknown if the cluster was silent, otherwise absent."""

from __future__ import annotations

from typing import Any

import pytest

from backend.cluster_requests import tracing
from backend.cluster_requests.trace_facts import TraceFacts
from backend.domain.distribution.trace import TreeVersion
from backend.domain.tree import tree_shape
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.record_search import LogRange, LogRecord, NotThere, Place
from backend.queries.distribution.traced_streams import TracedStream

STREAM = "acme/retail/prod/orders"
CLUSTERS = {"a": 1, "b": 2, "c": 3}
ROOT = tree_shape.parse(
    {"level": 2, "children": [{"level": 1, "children": [{"cluster": "a"}, {"cluster": "b"}]}, {"cluster": "c"}]},
    frozenset(CLUSTERS),
)


class FakeLog:
    """Log of one record, which was produced on a; b does not answer, and c has no copy yet."""

    def __init__(self, place: Place, seconds: float) -> None:
        if place.bootstrap_servers == "b":
            raise KafkaCallFailed("timed out")

    def range(self) -> LogRange:
        return LogRange(0, 8)

    def at(self, offset: int) -> LogRecord:
        return LogRecord(offset, 1_000, ())

    def find(self, judge: Any, since_ms: int) -> NotThere:
        return NotThere(later_there=False)

    def close(self) -> None:
        pass


def test_a_cluster_that_did_not_answer_is_unknown_and_one_without_the_record_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "Log", FakeLog)
    facts = TraceFacts(
        stream=TracedStream(
            STREAM,
            4,
            True,
            False,
            dict.fromkeys(CLUSTERS, "orders"),
            dict.fromkeys(CLUSTERS, 1),
            {name: {} for name in CLUSTERS},
            {},
        ),
        partition=3,
        clusters=CLUSTERS,
        names={number: name for name, number in CLUSTERS.items()},
        roots={},
        places={name: Place(name, {}, "orders", 3) for name in CLUSTERS},
        absent={},
        unreachable={},
        versions=[TreeVersion(ROOT, tree_shape.default_targets(ROOT), 0, None)],
        distributors={},
        flags_header="copy-flags",
        origin_header="copy-origin",
    )
    found = tracing.run(facts, "a", 7)
    assert (found.origin.cluster, found.copies) == ("a", ())
    assert [(each.cluster, each.state) for each in found.missing] == [("b", "unknown"), ("c", "absent")]
    assert found.missing[0].reason == "unknown: b does not answer: timed out"
