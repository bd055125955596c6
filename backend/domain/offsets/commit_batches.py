"""Split an offset commit into batches that a group coordinator can write.

A coordinator writes all that one request commits as one batch of `__consumer_offsets`. A batch above that topic's
`max.message.bytes` is refused as a whole: a transactional commit with UNKNOWN_SERVER_ERROR, after which the
transaction must be aborted, and the same positions can never be committed in one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Row = TypeVar("Row")

DEFAULT_BATCH_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`."""
_SHARE = 0.5
"""Share of a batch that one piece may fill: record sizes are estimates, and formats grow with Kafka's versions."""
_RECORD_BYTES = 128
"""Most bytes of a record besides its texts: the record's own fields (32), the key's (10) and the value's (some 50,
with the topic id that newer formats hold)."""


def piece_bytes(batch_bytes: int = DEFAULT_BATCH_BYTES) -> int:
    """Return how many bytes of records one commit may have if a batch may have `batch_bytes`."""
    return int(batch_bytes * _SHARE)


def record_bytes(group: str, topic: str, metadata: str | None) -> int:
    """Return an upper bound of the record's size that a coordinator writes for one committed offset."""
    return _RECORD_BYTES + sum(len(text.encode()) for text in (group, topic, metadata or ""))


def pieces(rows: Iterable[Row], size: Callable[[Row], int], most_bytes: int) -> Iterator[list[Row]]:
    """Yield the rows in order, in lists of at most `most_bytes` each; a larger row is alone."""
    piece: list[Row] = []
    held = 0
    for row in rows:
        needed = size(row)
        if piece and held + needed > most_bytes:
            yield piece
            piece, held = [], 0
        piece.append(row)
        held += needed
    if piece:
        yield piece
