"""Records that a change of a stream's settings removes."""

from __future__ import annotations

import pytest

from backend.domain.topics.stream_settings import StreamSettings, removed_by

BOTH = "compact,delete"


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        (("delete", 5000), ("delete", 5000), ""),
        (("delete", 5000), ("delete", 9000), ""),
        (("delete", 5000), ("delete", -1), ""),
        (("delete", 5000), ("delete", 4000), "records older than 4 seconds"),
        (("delete", -1), ("delete", 4000), "records older than 4 seconds"),
        (("delete", 5000), ("delete", 0), "records older than 0 ms"),
        (("compact", 5000), ("compact", 4000), ""),
        (("compact", 5000), ("delete", 5000), "records older than 5 seconds"),
        (("compact", 5000), (BOTH, 5000), "records older than 5 seconds"),
        (("compact", 5000), ("delete", -1), ""),
        ((BOTH, 5000), ("compact", 4000), ""),
        ((BOTH, 5000), ("delete", 5000), ""),
        (("delete", 5000), ("compact", 5000), "records that have a later one with the same key"),
        (("delete", 5000), (BOTH, 6000), "records that have a later one with the same key"),
        (
            ("delete", -1),
            (BOTH, 60),
            "records that have a later one with the same key and records older than 60 ms",
        ),
    ],
)
def test_only_what_shortens_the_time_or_begins_to_compact_removes_records(before, after, removed):
    settings = [StreamSettings(cleanup_policy=policy, retention_ms=kept) for policy, kept in (before, after)]
    assert removed_by(*settings) == removed


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        ({}, {"retention.bytes": "1000"}, "the oldest records of each partition beyond 1,000 bytes"),
        (
            {"retention.bytes": "-1"},
            {"retention.bytes": "5"},
            "the oldest records of each partition beyond 5 bytes",
        ),
        ({"retention.bytes": "1000"}, {"retention.bytes": "2000"}, ""),
        ({"retention.bytes": "1000"}, {}, ""),
        ({}, {"compression.type": "zstd", "segment.bytes": "1048576"}, ""),
        ({}, {"remote.log.delete.on.disable": "TRUE"}, "records in remote storage once that is switched off"),
        # A value that is refused anyway is not read as a number.
        ({}, {"retention.bytes": "many"}, ""),
    ],
)
def test_a_topic_setting_that_has_kafka_remove_records_is_named(before, after, removed):
    assert removed_by(StreamSettings(config=before), StreamSettings(config=after)) == removed
