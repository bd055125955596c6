"""The survey of the topics of a real cluster, for an adoption's plan."""

from __future__ import annotations

import uuid

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.admin import header_sample
from backend.kafka.admin.survey import ClusterPlace, holdings
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, produce

HEADERS = ("copy-flags", "copy-origin")
FLAGS = ("copy-flags", copy_flags.encode(2))
BORN = ("copy-origin", origin.encode(Origin(1, origin.stream_id("acme/retail/prod/orders"), 0, 0, 1)))


def test_records_with_either_of_our_headers_are_found_in_any_partition(estate):
    servers, mark = estate.bootstrap_servers("cluster-1"), uuid.uuid4().hex[:8]
    carried = {
        "flags": [FLAGS],
        "origin": [BORN],
        "both": [FLAGS, BORN],
        "neither": [("h", b"1")],
        "nothing": None,
    }
    names = {kind: f"{kind}.{mark}" for kind in carried}
    for kind, headers in carried.items():
        create_topic(servers, names[kind], 2)
        others = [{"value": b"own", "partition": n % 2} for n in range(10)]
        produce(servers, names[kind], [*others, {"value": b"last", "partition": 1, "headers": headers}])
    found = header_sample.topics_with(HEADERS, servers, {}, dict.fromkeys(names.values(), 2), DEADLINE_SECONDS)
    assert found == {names["flags"], names["origin"], names["both"]}


def test_a_topic_is_told_as_it_is_with_what_is_set_on_itself(estate):
    servers, topic = estate.bootstrap_servers("cluster-1"), f"surveyed.{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic, 3, segment_ms="777777")
    produce(servers, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(7)])
    seen = holdings([ClusterPlace("cluster-1", servers, {})], lambda cluster: [topic], DEADLINE_SECONDS)[
        "cluster-1"
    ]
    assert seen is not None
    found = seen[topic]
    assert (found.partitions, found.replication_factor, found.records, found.refusal) == (3, 1, 7, None)
    assert found.own == {"retention.ms": "-1", "segment.ms": "777777"}
    assert found.config["cleanup.policy"] == "delete"
    assert len(seen) > 1 and all(not each.topic_id for name, each in seen.items() if name != topic), "names only"
