"""Reset of a group's offsets on one cluster, on request of an operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine

from backend.cluster_requests.offset_lock import setting_offsets
from backend.domain.base.errors import ClusterSilent, StateConflict, ValueInvalid
from backend.domain.names.names import StreamName
from backend.domain.offsets.group_directory import technical_group
from backend.kafka.base.client_config import client_config
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.groups.group_members import GroupAdmin
from backend.kafka.groups.group_offsets import GroupOffsets, Setting
from backend.kafka.logs.log_ends import Place
from backend.queries.clusters.clusters import ClusterRow

EARLIEST, LATEST = "earliest", "latest"
_METADATA = "set by an operator"
_REQUEST_SECONDS = 10.0
_WAIT_SECONDS = 12.0
"""Time to wait for the lock, while the caller waits for the answer: as long as a holder waits for a cluster."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Request to reset a group; `partitions` are those of the stream."""

    cluster: ClusterRow
    stream: StreamName
    topic: str
    group: str
    partitions: tuple[int, ...]
    to: str
    """One of earliest, latest, an offset, or a time as ISO 8601."""

    @property
    def technical_group(self) -> str:
        """Return the group's name on the cluster."""
        return technical_group(self.cluster.group_format, self.stream, self.group)


def wished_offsets(wish: Wish) -> dict[int, int]:
    """Return partition -> offset, within each log. Raises ValueInvalid, ClusterSilent."""
    places: list[Place] = [(wish.topic, partition) for partition in wish.partitions]
    offset, at_ms = _number(wish.to), None
    if offset is None and wish.to not in (EARLIEST, LATEST):
        at_ms = _milliseconds(wish.to)
    try:
        offsets = _client(wish)
        ends = offsets.ends(places)
        at = {} if at_ms is None else offsets.at_timestamps({place: [at_ms] for place in places})
    except KafkaCallFailed as error:
        raise _silent(wish, error.reason) from error
    found: dict[int, int] = {}
    for place in places:
        if place not in ends or (at_ms is not None and (place, at_ms) not in at):
            raise _silent(wish, f"{place[0]}/{place[1]} did not report its first and last offset")
        low, end = ends[place]
        chosen = {EARLIEST: low, LATEST: end}.get(wish.to, offset)
        if at_ms is not None:
            chosen = at[place, at_ms]
        found[place[1]] = min(max(end if chosen is None else chosen, low), end)
    return found


def refuse_members(wish: Wish) -> None:
    """Raise what `reset` would if the group has members, without setting anything; ClusterSilent as well.

    Only for dry runs and previews: a group may get members at any moment, so `reset` leaves the decision to the
    broker. The list of groups has groups of every protocol with their states; describing one group does not.
    """
    try:
        config = client_config(wish.cluster.bootstrap_servers, wish.cluster.properties)
        may_have_members = GroupAdmin.open(config, _REQUEST_SECONDS).names()
    except KafkaCallFailed as error:
        raise _silent(wish, error.reason) from error
    if may_have_members.get(wish.technical_group, False):
        raise _has_members(wish)


def reset(engine: Engine, wish: Wish, offsets: dict[int, int]) -> None:
    """Set the offsets, while neither a committer nor a switch sets offsets on this cluster.

    Raises StateConflict if the group has members, ClusterSilent, LockBusy and LockLost.
    """
    settings = {
        (wish.topic, partition): Setting(offset=offset, metadata=_METADATA)
        for partition, offset in offsets.items()
    }
    try:
        client = _client(wish)
        with setting_offsets(engine, wish.cluster.name, _WAIT_SECONDS) as lock:
            lock.check()
            answers = client.set({wish.technical_group: settings})
    except KafkaCallFailed as error:
        raise _silent(wish, error.reason) from error
    for refused in answers.values():
        if refused is not None and refused.has_members:
            raise _has_members(wish)
        if refused is not None:
            raise _silent(wish, refused.reason)


def _client(wish: Wish) -> GroupOffsets:
    return GroupOffsets(client_config(wish.cluster.bootstrap_servers, wish.cluster.properties))


def _has_members(wish: Wish) -> StateConflict:
    return StateConflict(
        f"group {wish.technical_group} has members on {wish.cluster.name}: stop its consumers there first"
    )


def _silent(wish: Wish, reason: str) -> ClusterSilent:
    return ClusterSilent(f"{wish.cluster.name}: offsets of {wish.technical_group} could not be set: {reason}")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _milliseconds(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueInvalid(
            f"{text[:60]!r} is neither {EARLIEST}, {LATEST}, an offset, nor a time like 2026-01-31T12:00:00Z"
        ) from None
    return max(0, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
