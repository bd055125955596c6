"""Reports of a session about records that it cannot copy, made before it continues without them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Message

from backend.domain.distribution.edges import EdgePlan, StreamOnEdge
from backend.domain.distribution.former_topic import Unread
from backend.domain.records import origin
from backend.domain.records.partition_edge import Header
from backend.kafka.base.liveness import Alive
from backend.kafka.copy.control_plane import ControlPlane, Gone, Refused, Replaced, Truncated


class Reports:
    """Reports of one session; each call returns once the control plane has recorded it, or raises."""

    def __init__(self, plan: EdgePlan, control_plane: ControlPlane, alive: Alive) -> None:
        self._plan, self._control_plane, self._alive = plan, control_plane, alive

    def lost(self, row: StreamOnEdge, partition: int, first: int, last: int, reason: str) -> None:
        """Report offsets of the source that were gone before they could be copied."""
        self._alive()
        self._control_plane.lost(
            Gone(
                target=self._plan.target.name,
                stream=row.stream,
                partition=partition,
                first_offset=first,
                last_offset=last,
                reason=reason,
                incarnation=row.incarnations[partition][-1][1],
            )
        )

    def source_replaced(self, row: StreamOnEdge, unread: Mapping[int, Unread]) -> None:
        """Report the possible losses with a source topic that was re-created, all partitions at once."""
        self._alive()
        self._control_plane.replaced(
            Replaced(
                target=self._plan.target.name,
                stream=row.stream,
                incarnation=max(row.incarnations[partition][0][1] for partition in unread),
                unread=unread,
            )
        )

    def truncated(self, row: StreamOnEdge, partition: int, first: int, last: int) -> None:
        """Report offsets that were truncated on the source after they had been read, and are assigned again.

        Raises CopyFailed if the cause is a re-created topic, which the reconcile loop records.
        """
        self._alive()
        self._control_plane.topic_ids.check(self._plan, [row])
        source = self._plan.source.name
        reason = (
            f"the log was truncated at {first} on {source}; copies of offsets {first} to {last} exist elsewhere"
        )
        self.lost(row, partition, first, last, reason)
        self._alive()
        self._control_plane.truncated(
            Truncated(
                stream=row.stream,
                partition=partition,
                first_offset=first,
                last_offset=last,
                incarnation=row.incarnations[partition][-1][1],
            )
        )

    def dead_letter(self, stream: str, message: Message, headers: list[Header], reason: str) -> str:
        """Report a record that the target refuses; return its id among the dead letters."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        record_origin = origin.decode([value for name, value in headers if name == self._plan.rule.origin_header])
        refused = Refused(
            target=self._plan.target.name,
            stream=stream,
            partition=partition,
            offset=offset,
            origin=(record_origin.cluster, record_origin.incarnation, record_origin.offset)
            if record_origin
            else None,
            reason=reason,
        )
        self._alive()
        return self._control_plane.dead_letter(refused)
