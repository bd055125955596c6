"""Which records a change of a stream's settings takes away."""

from __future__ import annotations

import pytest

from backend.domain.stream_settings import StreamSettings, removed_by

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
