"""One sentence that says whether a consumer group keeps up, and if not, why.

`diagnose` takes what one observation tells of a group. The first case that fits wins: what stops the group
altogether comes before what slows it down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from backend.domain.offsets.observed_group import (
    REBALANCING,
    UNKNOWN,
    GroupMember,
    GroupPartition,
    Sums,
    sums,
)

IN_TIME = "in-time"
NO_MEMBERS = "no-members"
SLOWER = "slower-than-producers"
CATCHING_UP = "catching-up"
STALLED = "partition-stalled"
REBALANCE = "rebalancing"
PAUSED = "paused-by-switch"
NEVER_COMMITTED = "never-committed"
UNASSIGNED = "unassigned"
BEYOND_END = "beyond-end"
NOT_OBSERVED = "not-observed"
CODES = (
    IN_TIME,
    NO_MEMBERS,
    SLOWER,
    CATCHING_UP,
    STALLED,
    REBALANCE,
    PAUSED,
    NEVER_COMMITTED,
    UNASSIGNED,
    BEYOND_END,
    NOT_OBSERVED,
)
"""Codes of diagnoses, as REST and the command line name them."""
IN_TIME_MS = 30_000
"""Time lag up to which a group keeps up: consumers commit every five seconds by default, and offsets are observed
every fifteen."""
STALLED_MS = 600_000
"""Time without progress after which an owned partition counts as stalled."""
LONG_REBALANCE_MS = 60_000
"""Duration from which a rebalance is reported as the cause; most end within seconds."""
_SAME_RATE = 0.98
"""Share of the producers' rate from which a group counts as being as fast as they are."""


@dataclass(frozen=True)
class Diagnosis:
    """A diagnosis: its code, one of `CODES`, and one sentence."""

    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class GroupFacts:
    """Facts of one observation about a group."""

    state: str
    """State in Kafka's words."""
    state_since_ms: int | None = None
    """Time since which it has been observed in this state; None: not known."""
    has_members: bool
    members: Sequence[GroupMember] = ()
    """Members that may be named; empty for readers who may not see them."""
    partitions: Sequence[GroupPartition]
    reason: str | None = None
    """Reason for which members or offsets could not be read."""


def diagnose(facts: GroupFacts, now_ms: int) -> Diagnosis:
    """Return the diagnosis; `now_ms` is the time of the observation."""
    total = sums(facts.partitions)
    return (
        _not_observed(facts)
        or _rebalancing(facts, total, now_ms)
        or _beyond_end(facts)
        or _no_members(facts, total, now_ms)
        or _stalled(facts, now_ms)
        or _unassigned(facts)
        or _never_committed(facts)
        or _in_time(facts, total)
        or _by_rates(total)
    )


def _not_observed(facts: GroupFacts) -> Diagnosis | None:
    if facts.reason is not None:
        return Diagnosis(NOT_OBSERVED, f"Not observed: {facts.reason}.")
    if facts.state == UNKNOWN:
        return Diagnosis(NOT_OBSERVED, "Not observed: the cluster does not report the group's state.")
    return None


def _rebalancing(facts: GroupFacts, total: Sums, now_ms: int) -> Diagnosis | None:
    if facts.state not in REBALANCING or facts.state_since_ms is None:
        return None
    lasted_ms = now_ms - facts.state_since_ms
    if lasted_ms < LONG_REBALANCE_MS:
        return None
    return Diagnosis(
        REBALANCE,
        f"Rebalancing for {duration(lasted_ms)}: its members wait for partitions, "
        f"and {_records_wait(total.lag_records)}.",
    )


def _beyond_end(facts: GroupFacts) -> Diagnosis | None:
    beyond = [
        each
        for each in facts.partitions
        if each.committed_offset is not None
        and each.end_offset is not None
        and each.committed_offset > each.end_offset
    ]
    if not beyond:
        return None
    first = beyond[0]
    return Diagnosis(
        BEYOND_END,
        f"The committed offset {first.committed_offset:,} of partition {first.partition} of {first.name} lies "
        f"beyond the log's end {first.end_offset:,}{_others(beyond)}: the topic was created anew or its log "
        "was truncated.",
    )


def _no_members(facts: GroupFacts, total: Sums, now_ms: int) -> Diagnosis | None:
    # A consumer with a manual assignment is no member, yet its commits move.
    if facts.has_members or not total.lag_records or total.records_per_second:
        return None
    since = "" if facts.state_since_ms is None else f" since {clock(facts.state_since_ms, now_ms)}"
    return Diagnosis(NO_MEMBERS, f"No members{since}: nobody reads, and {_records_wait(total.lag_records)}.")


def _stalled(facts: GroupFacts, now_ms: int) -> Diagnosis | None:
    still = [
        (since, each)
        for each in facts.partitions
        if each.member is not None
        and each.lag_records
        and (since := _still_since(each, now_ms)) is not None
        and now_ms - since >= STALLED_MS
    ]
    if not still:
        return None
    since, first = still[0]
    owner = next((each for each in facts.members if each.member_id == first.member), None)
    named = "" if owner is None else f"; its owner is {owner.client_id} on {owner.host}"
    return Diagnosis(
        STALLED,
        f"Partition {first.partition} of {first.name} has not moved for {duration(now_ms - since)}, since "
        f"{clock(since, now_ms)}{_others([each for _, each in still])}{named}.",
    )


def _still_since(partition: GroupPartition, now_ms: int) -> int | None:
    """Return since when records wait and the offset has not moved: records may have arrived only lately."""
    moved_ms = partition.observed_since_ms if partition.moved_at_ms is None else partition.moved_at_ms
    waited_ms = partition.time_lag_at_least_ms if partition.time_lag_ms is None else partition.time_lag_ms
    return None if moved_ms is None or waited_ms is None else max(moved_ms, now_ms - waited_ms)


def _unassigned(facts: GroupFacts) -> Diagnosis | None:
    # Without members nobody owns a partition, and during a rebalance members own none for a moment.
    if not facts.has_members or facts.state in REBALANCING:
        return None
    left = [
        each
        for each in facts.partitions
        if each.member is None and each.lag_records and not each.records_per_second
    ]
    if not left:
        return None
    waiting = sum(each.lag_records or 0 for each in left)
    return Diagnosis(
        UNASSIGNED,
        f"No member owns partition {left[0].partition} of {left[0].name}{_others(left)}, "
        f"where {_records_wait(waiting)}.",
    )


def _never_committed(facts: GroupFacts) -> Diagnosis | None:
    missing = [each for each in facts.partitions if each.committed_offset is None and each.end_offset]
    if not missing:
        return None
    first, count = missing[0], len(facts.partitions)
    return Diagnosis(
        NEVER_COMMITTED,
        f"The group has never committed an offset for {len(missing):,} of its {count:,} "
        f"{_plural(count, 'partition')}, first partition {first.partition} of {first.name}, so the lag there is "
        "not known.",
    )


def _in_time(facts: GroupFacts, total: Sums) -> Diagnosis | None:
    if not total.lag_records:
        unread = [
            each for each in facts.partitions if each.committed_offset is not None and each.lag_records is None
        ]
        if unread:
            return Diagnosis(
                NOT_OBSERVED,
                f"The log's end of partition {unread[0].partition} of {unread[0].name}{_others(unread)} could not "
                "be read, so the lag is not known.",
            )
        without = "" if facts.has_members else ", and the group has no members"
        return Diagnosis(IN_TIME, f"In time: no records wait{without}.")
    if total.time_lag_ms is None or total.time_lag_ms > IN_TIME_MS:
        return None
    return Diagnosis(
        IN_TIME,
        f"In time: at most {duration(total.time_lag_ms)} behind, with {_records(total.lag_records)} to read.",
    )


def _by_rates(total: Sums) -> Diagnosis:
    lag, consumed, produced = total.lag_records or 0, total.records_per_second, total.produced_per_second
    if consumed is None or produced is None:
        return Diagnosis(
            NOT_OBSERVED, f"Not observed for long enough: {_records_wait(lag)}; rates need a second observation."
        )
    if consumed <= 0:
        return Diagnosis(
            SLOWER, f"It reads nothing at present, {rate(produced)} are written, and {_records_wait(lag)}."
        )
    if consumed * _SAME_RATE > produced:
        left = duration(round(1000 * lag / (consumed - produced)))
        return Diagnosis(
            CATCHING_UP,
            f"Catching up: it reads {rate(consumed)}, {rate(produced)} are written, and {_records_wait(lag)}, for "
            f"about {left}.",
        )
    if consumed < produced * _SAME_RATE:
        return Diagnosis(
            SLOWER,
            f"Slower than its producers: it reads {rate(consumed)}, {rate(produced)} are written, and "
            f"{_records_wait(lag)}.",
        )
    return Diagnosis(
        SLOWER,
        f"No faster than its producers: it reads the {rate(produced)} that are written, so {_records(lag)} stay "
        "unread.",
    )


def paused(lag_records: int | None, switch: str) -> Diagnosis:
    """Return the diagnosis of a group whose environment is held by a switch in progress."""
    return Diagnosis(
        PAUSED,
        f"Paused by switch {switch}: it holds the clients of the environment, and {_records_wait(lag_records)}.",
    )


def _others(partitions: Sequence[GroupPartition]) -> str:
    more = len(partitions) - 1
    return f" (and {more:,} more {_plural(more, 'partition')})" if more else ""


def _records(count: int) -> str:
    return f"{count:,} {_plural(count, 'record')}"


def _records_wait(count: int | None) -> str:
    if count is None:
        return "how many records wait is not known"
    return f"{_records(count)} {'waits' if count == 1 else 'wait'}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def rate(per_second: float) -> str:
    """Return a rate in records per second, with a decimal place only where it says something."""
    return f"{per_second:,.0f} records/s" if per_second >= 10 or per_second == 0 else f"{per_second:.2g} records/s"


def duration(ms: int) -> str:
    """Return a duration in its largest unit, or in two units from an hour on."""
    seconds = max(0, round(ms / 1000))
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{round(hours / 24):,} days"


def clock(at_ms: int, now_ms: int) -> str:
    """Return a time in UTC, with its date unless it is of the last day."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%H:%M} UTC" if 0 <= now_ms - at_ms < 86_400_000 else f"{at:%Y-%m-%d %H:%M} UTC"
