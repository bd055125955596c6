"""Problems of consumer groups, by their diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from backend.domain.base.words import counted
from backend.domain.offsets.group_diagnosis import (
    BEYOND_END,
    NO_MEMBERS,
    REBALANCE,
    SLOWER,
    STALLED,
    UNASSIGNED,
)
from backend.domain.overview.estate_facts import GroupsFact
from backend.domain.overview.problems import Kind, Problem, Severity, WayOut, address, listed, oldest

_WORDS = {
    BEYOND_END: (
        "committed offsets beyond the log's end",
        "Reset the group's offsets: its consumers read nothing, or skip records that are written now.",
    ),
    STALLED: (
        "a partition that has not moved for 10 minutes",
        "Look at the consumer that owns the partition: it may be stuck on one record.",
    ),
    UNASSIGNED: (
        "a partition that no member owns",
        "Check the assignment of the group's consumers: nobody reads the partition.",
    ),
    NO_MEMBERS: (
        "no members while records wait",
        "Start the group's consumers; delete the group if nobody needs it any more.",
    ),
    REBALANCE: (
        "been rebalancing for more than a minute",
        "Look for a consumer that joins and leaves: while the group rebalances, its members read nothing.",
    ),
    SLOWER: (
        "a lag of more than 5 minutes, and slower consumers than producers",
        "Add consumers, up to the number of partitions, or make each of them faster.",
    ),
}
"""Diagnoses that are problems, the gravest first. Others are in order, or mend themselves."""
CODES = tuple(_WORDS)
LASTING = timedelta(minutes=1)
"""Time for which a diagnosis must hold before it is a problem: consumers are restarted every day."""
LATE_MS = 300_000
"""Time lag from which a group that is slower than its producers is a problem."""


def group_problems(found: Sequence[GroupsFact]) -> Iterator[Problem]:
    """Yield a problem for each diagnosis that is one, with the groups that lag most."""
    by_code = {fact.code: fact for fact in found if fact.count}
    yield from (_problem(by_code[code]) for code in CODES if code in by_code)


def _problem(found: GroupsFact) -> Problem:
    what, advice = _WORDS[found.code]
    names = [f"{group.name} on {group.cluster}" for group in found.worst]
    first, one = found.worst[0], found.count == 1
    if one:
        text = f"Group {names[0]}: {first.text}"
        group = address("/groups/-of", cluster=first.cluster, group=first.technical_group)
        way_out = WayOut(label="Open group", address=group)
    else:
        text = f"{counted(found.count, 'consumer group')} have {what}, such as {listed(names)}."
        way_out = WayOut(label="Open groups", address=address("/groups", diagnosis=found.code))
    return Problem(
        code=f"group-{found.code}",
        kind=Kind.LATENESS,
        severity=Severity.WARNING,
        subject=names[0] if one else counted(found.count, "consumer group"),
        text=text,
        advice=advice,
        since=oldest(group.since for group in found.worst),
        way_out=way_out,
    )
