"""A batch of the log on its way into the WAL and from there into a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from backend.kafka.wire.batches import Batch, ControlType, control_type
from backend.kafka.wire.encoding import MessageMalformed
from workers.zone_router.formats.wal import Aborted, Begun, Direct, Gone, Link, Partition, WalRecord


class FollowedBatch(NamedTuple):
    """A followed batch; or a Begun or Gone record, which have no batch."""

    partition: Partition
    record: WalRecord
    batch: memoryview
    """The batch as in the log."""
    base_offset: int
    """Offset from which the log holds only this batch, up to `next_offset`."""
    next_offset: int
    leader_epoch: int
    """Epoch of the leader from which it was followed."""
    batch_epoch: int
    """Epoch of the leader that wrote it."""
    open_after: dict[int, int] | None
    """Open transactions after the batch, if it is transactional."""
    aborted: Aborted | None
    """Transaction that the batch aborted."""

    @classmethod
    def begun(cls, record: Begun) -> FollowedBatch:
        at = record.offset
        return cls(record.partition, record, memoryview(b""), at, at, record.leader_epoch, -1, None, None)

    @classmethod
    def gone(cls, record: Gone) -> FollowedBatch:
        return cls(record.partition, record, memoryview(b""), 0, 0, -1, -1, None, None)

    @classmethod
    def of(
        cls,
        record: Link | Direct,
        batch: Batch,
        data: memoryview,
        leader_epoch: int,
        still_open: dict[int, int],
        aborted: Aborted | None,
    ) -> FollowedBatch:
        return cls(
            record.partition,
            record,
            data,
            batch.base_offset - record.gap,
            batch.next_offset,
            leader_epoch,
            batch.leader_epoch,
            dict(still_open) if batch.is_transactional else None,
            aborted,
        )


def open_before(still_open: Mapping[int, int], offset: int) -> dict[int, int]:
    """Return the open transactions, by producer, whose first batch remains when a log is truncated at `offset`."""
    return {producer: first for producer, first in still_open.items() if first < offset}


def ended_transaction(
    still_open: dict[int, int], partition: Partition, batch: Batch, data: memoryview
) -> Aborted | None:
    """Update the open transactions with a batch; return the transaction that it aborted, if any."""
    if not batch.is_transactional:
        return None
    if not batch.is_control:
        still_open.setdefault(batch.producer_id, batch.base_offset)
        return None
    first = still_open.pop(batch.producer_id, None)
    try:
        is_abort = control_type(data) == ControlType.ABORT
    except MessageMalformed:
        return None
    if not is_abort or first is None:
        return None
    return Aborted(partition, batch.producer_id, first, batch.base_offset)
