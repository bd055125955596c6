"""What the offset committer writes as the metadata of an offset, so that nobody takes it for an application's
progress.

    treeline:1;copy-flags=0101;ts=1700000000000;at=1700000060000;gen=3;from=cluster-1

The flags are those that the map record had on this cluster; `ts` and `at` are milliseconds: the timestamp that was
distributed, and when the group committed on the cluster `from`, in the generation `gen` of its environment.
Source: contract, "Kafka"; distribution model, "Distributing offsets".
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
    """Whose progress an offset of the committer stands for."""

    flags: int
    timestamp_ms: int
    committed_at_ms: int
    generation: int
    cluster: str

    @property
    def order(self) -> tuple[int, int]:
        """Of two marks of one group and partition, the one with the higher order is the later progress."""
        return self.generation, self.committed_at_ms

    def is_of(self, cluster: str, order: tuple[int, int]) -> bool:
        """Whether it stands for this progress."""
        return (self.cluster, *self.order) == (cluster, *order)


def encode(mark: CommitMark) -> str:
    """Metadata of the offset."""
    return (
        f"treeline:1;copy-flags={copy_flags.text(mark.flags)};ts={mark.timestamp_ms};at={mark.committed_at_ms};"
        f"gen={mark.generation};from={mark.cluster}"
    )


def is_ours(metadata: str | None) -> bool:
    """Whether a committer wrote it, this version's or another's."""
    return metadata is not None and metadata.startswith(PREFIX)


def decode(metadata: str | None) -> CommitMark | None:
    """The mark; None if no committer of this version wrote it, or it was altered."""
    # librdkafka's Python client ends what it writes with a zero byte.
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
