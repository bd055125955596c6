"""Resuming partitions of streams: what the target holds, where reading begins, and what was lost before that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from backend.domain.distribution.edges import EdgePlan, StreamOnEdge
from backend.domain.distribution.former_topic import Unread
from backend.domain.distribution.rescan import Checkpoint
from backend.domain.distribution.resume_point import ResumePoint, find_resume_point
from backend.domain.records.marks import Mark, Position
from backend.kafka.base.liveness import Alive
from backend.kafka.copy.clients import largest_requests
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.record_loop import Progress
from backend.kafka.copy.reports import Reports
from backend.kafka.copy.source import Place, Source, SourcePartition
from backend.kafka.groups import positions
from backend.kafka.groups.group_reader import GroupReader

_REQUEST_SECONDS = 10.0


@dataclass(frozen=True)
class _Held:
    """Knowledge of the target and the control plane about the partitions."""

    own: Mapping[Place, Position]
    """Positions by (topic on the target, partition); `inbound` has the same keys."""
    inbound: Mapping[Place, Sequence[Mark]]
    checkpoints: Mapping[tuple[str, int], Sequence[Checkpoint]]


class Resumption:
    """Resumption of one session's partitions; everything is read after the task has fenced its predecessors."""

    def __init__(
        self,
        plan: EdgePlan,
        control_plane: ControlPlane,
        reports: Reports,
        alive: Alive,
        group_member: GroupReader,
        admin: AdminClient,
        source: Source,
    ) -> None:
        """`admin` is connected to the target, `group_member` to the task's group there."""
        self._plan, self._control_plane, self._reports, self._alive = plan, control_plane, reports, alive
        self._group_member, self._admin, self._source = group_member, admin, source

    def resume(self, streams: Sequence[StreamOnEdge]) -> dict[Place, Progress]:
        """Resume each partition of the streams, by its place on the source; losses have been reported on return.

        Raises KafkaException, MetadataInvalid, and any failure of the control plane.
        """
        held = self._held(streams)
        requests = largest_requests(self._admin, {row.target_topic for row in streams})
        taken: dict[Place, Progress] = {}
        for row in streams:
            unread: dict[int, Unread] = {}
            for partition in row.partitions:
                begin, progress = self._one(row, partition, held, requests[row.target_topic])
                taken[row.source_topic, partition] = progress
                if begin.unread is not None:
                    unread[partition] = begin.unread
            if unread:
                self._reports.source_replaced(row, unread)
        return taken

    def _held(self, streams: Sequence[StreamOnEdge]) -> _Held:
        on_target = [(row.target_topic, p) for row in streams for p in row.partitions]
        self._alive()
        own = positions.read_own(self._group_member, on_target, _REQUEST_SECONDS)
        self._alive()
        inbound = positions.read_inbound(
            self._group_member, self._plan.inbound_groups, on_target, _REQUEST_SECONDS
        )
        self._alive()
        known = self._control_plane.checkpoints([(row.stream, p) for row in streams for p in row.partitions])
        return _Held(own, inbound, known)

    def _one(
        self, row: StreamOnEdge, partition: int, held: _Held, largest_request: int
    ) -> tuple[ResumePoint, Progress]:
        key = (row.target_topic, partition)
        begin = find_resume_point(
            self._plan,
            row,
            partition,
            own=held.own.get(key),
            inbound=held.inbound.get(key, ()),
            checkpoints=held.checkpoints.get((row.stream, partition), ()),
            foreign=self._control_plane.foreign,
            seen_end=self._control_plane.seen_ends.of(row.stream, partition),
        )
        offset = self._behind_what_is_gone(row, partition, begin)
        epoch = begin.own.leader_epoch if begin.own is not None and begin.own.offset == offset else None
        read = SourcePartition(offset, epoch)
        return begin, Progress(read, begin.edge, row.stream, row.target_topic, largest_request)

    def _behind_what_is_gone(self, row: StreamOnEdge, partition: int, begin: ResumePoint) -> int | None:
        """Return where reading begins, after reporting lost offsets that the current routes would have carried."""
        if begin.owed is None:
            return begin.offset
        self._alive()
        low = self._source.first_offset((row.source_topic, partition))
        if low is None or low <= begin.owed:
            return begin.offset
        unread = low if begin.own is None else min(begin.own.offset, low)
        if unread > begin.owed:
            reason = (
                f"offsets {begin.owed} to {unread - 1} were gone when the routes changed; records that come to "
                f"{self._plan.target.name} this way only since then may have been among them"
            )
            self._reports.lost(row, partition, begin.owed, unread - 1, reason)
        if low > unread:
            reason = f"offsets {unread} to {low - 1} were gone before they were read"
            self._reports.lost(row, partition, unread, low - 1, reason)
        return low
