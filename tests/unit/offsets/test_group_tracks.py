"""Observations of groups one after the other: rates, times of changes, and what a new process takes over."""

from __future__ import annotations

from backend.domain.offsets.group_places import GroupPlaces
from backend.kafka.groups.group_states import GroupState, MemberState, assigned
from backend.queries.offsets.group_store import StoredGroup
from backend.queries.offsets.observed_groups import GroupRow
from tests.support.api.observed_groups import AT_MS, ORDERS
from workers.offsets.group_names import GroupNames
from workers.offsets.group_tracks import GroupTracks

NAMES = GroupNames(
    streams={"orders": ORDERS}, places=GroupPlaces("{tenant}-{group}", [("acme", "retail", "prod")])
)
MEMBER = MemberState(
    member_id="m", client_id="app", host="10.0.0.1", instance_id="i-1", partitions=[("orders", 0)]
)
MINUTE = 60_000


def look(tracks: GroupTracks, minute: float, committed: int | None, end: int, state: str = "Stable") -> GroupRow:
    """Observe one group with one member that many minutes after the start."""
    at_ms = AT_MS + round(minute * MINUTE)
    ends = {("orders", 0): (0, end), ("orders", 1): (0, 0)}
    tracks.observe_ends(ends, at_ms)
    offsets = {} if committed is None else {("orders", 0): committed}
    members = [] if state == "Empty" else [MEMBER]
    group = GroupState(name="acme-g", state=state, protocol="classic", members=members, committed=offsets)
    (row,) = tracks.rows([group], ends, NAMES, at_ms)
    return row


def restarted(row: GroupRow) -> GroupTracks:
    """Return what another process knows of a row that was stored."""
    stored = StoredGroup(
        technical_group=row.technical_group,
        state=row.state,
        state_since_ms=row.state_since_ms,
        code=row.diagnosis.code,
        since_ms=row.since_ms,
        partitions=row.partitions,
        observed_at=row.observed_at,
    )
    return GroupTracks("c1", [stored])


def test_rates_time_lag_and_members() -> None:
    tracks = GroupTracks("c1", [])
    first = look(tracks, 0, 100, 100)
    assert (first.group, first.place, first.tenants) == ("g", "acme/retail/prod", ["acme"])
    assert (first.records_per_second, first.lag_records, first.member_count) == (None, 0, 1)
    assert (first.members[0].partitions, first.members[0].instance_id) == (1, "i-1")
    second = look(tracks, 1, 160, 700)
    (part,) = second.partitions
    assert (part.records_per_second, part.produced_per_second, part.lag_records) == (1.0, 10.0, 540)
    assert (part.stream, part.member, part.time_lag_ms) == (ORDERS, "m", 54_000)
    assert second.diagnosis.code == "slower-than-producers"
    assert look(tracks, 2, 2_000, 2_000).diagnosis.code == "in-time"


def test_a_partition_is_stalled_since_its_offset_moved_or_records_came_also_after_a_restart() -> None:
    tracks = GroupTracks("c1", [])
    look(tracks, 0, 100, 100)
    for minute in range(1, 31):
        idle = look(tracks, minute, 100, 100)
    assert idle.diagnosis.code == "in-time", "nothing is written"
    late = look(tracks, 31, 100, 101)
    assert late.diagnosis.code == "slower-than-producers", "it lags, though not for long"
    still = look(tracks, 42, 100, 105)
    assert still.diagnosis.code == "partition-stalled" and "its owner is app on 10.0.0.1" in still.diagnosis.text
    later = look(tracks, 43, 100, 105)
    assert later.since_ms == still.since_ms and still.since_ms is not None
    anew = restarted(later)
    look(anew, 44, 100, 105)
    assert look(anew, 54, 100, 105).diagnosis.code == "partition-stalled", "ten minutes after the restart again"
    assert look(anew, 55, 105, 105).diagnosis.code == "in-time"


def test_a_state_is_known_since_it_changed_also_after_a_restart() -> None:
    tracks = GroupTracks("c1", [])
    look(tracks, 0, 100, 100)
    left = look(tracks, 1, 100, 130, "Empty")
    assert left.diagnosis.text == "No members since 14:03 UTC: nobody reads, and 30 records wait."
    after = look(restarted(left), 9, 100, 140, "Empty")
    assert after.diagnosis.text == "No members since 14:03 UTC: nobody reads, and 40 records wait."
    assert after.since_ms == left.since_ms
    assert look(tracks, 2, 100, 140).state_since_ms == AT_MS + 2 * MINUTE


def test_a_topic_created_anew_and_an_offset_that_is_deleted() -> None:
    tracks = GroupTracks("c1", [])
    look(tracks, 0, 100, 100)
    beyond = look(tracks, 1, 100, 3)
    assert (beyond.diagnosis.code, beyond.lag_records) == ("beyond-end", 0)
    gone = look(tracks, 2, None, 3)
    assert (gone.diagnosis.code, gone.lag_records) == ("never-committed", None)
    tracks.forget_except([])
    assert tracks.names == frozenset()


def test_assignments_of_consumers_and_what_is_none() -> None:
    # Version 1, two topics, user data.
    parts = b"\0\1\0\0\0\2" + b"\0\2ab\0\0\0\2\0\0\0\0\0\0\0\7" + b"\0\1c\0\0\0\1\0\0\0\3" + b"\xff\xff\xff\xff"
    assert assigned(parts) == [("ab", 0), ("ab", 7), ("c", 3)]
    for other in (b"", b"\0", b"\0\1\0\0\0\1\0\2\xff\xff", parts[:12], b'{"json": 1}'):
        assert assigned(other) == []
