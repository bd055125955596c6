"""Metadata that the offset committer writes with an offset, which tells it from an application's own commit.


    treeline:1;copy-flags=0101;ts=1700000000000;at=1700000060000;gen=3;from=cluster-1

The flags are those of the map record on this cluster. `ts` is the distributed timestamp and `at` the time of the
group's commit, both in milliseconds; `from` is the cluster of that commit, `gen` its environment's generation.
Source: docs/offsets.md; distribution model, "Distributing offsets".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backend.domain.records import copy_flags

PREFIX = "treeline:"
_FORM = re.compile(
    r"treeline:1;copy-flags=(?P<flags>[01]{4,31});ts=(?P<ts>-?\d{1,19});at=(?P<at>\d{1,19});gen=(?P<gen>\d{1,10});"
    r"from=(?P<source>[^;=]+)"
)


@dataclass(frozen=True, kw_only=True)
class CommitMark:
    """The progress that an offset set by the committer stands for."""

    flags: int
    timestamp_ms: int
    committed_at_ms: int
    generation: int
    cluster: str

    @property
    def order(self) -> tuple[int, int]:
        """Return a sort key: of two marks of one group and partition, the higher one is the later progress."""
        return self.generation, self.committed_at_ms

    def is_of(self, cluster: str, order: tuple[int, int]) -> bool:
        """Tell whether the mark stands for this progress."""
        return (self.cluster, *self.order) == (cluster, *order)


def encode(mark: CommitMark) -> str:
    """Return the metadata string of a mark."""
    return (
        f"treeline:1;copy-flags={copy_flags.text(mark.flags)};ts={mark.timestamp_ms};at={mark.committed_at_ms};"
        f"gen={mark.generation};from={mark.cluster}"
    )


def is_ours(metadata: str | None) -> bool:
    """Tell whether an offset committer, of this version or another, wrote the metadata."""
    return metadata is not None and metadata.startswith(PREFIX)


def decode(metadata: str | None) -> CommitMark | None:
    """Decode the mark; None if no committer of this version wrote it, or if it was altered."""
    # librdkafka's Python client appends a zero byte to the metadata that it writes.
    found = _FORM.fullmatch((metadata or "").rstrip("\0"))
    if found is None:
        return None
    return CommitMark(
        flags=int(found["flags"], 2),
        timestamp_ms=int(found["ts"]),
        committed_at_ms=int(found["at"]),
        generation=int(found["gen"]),
        cluster=found["source"],
    )
