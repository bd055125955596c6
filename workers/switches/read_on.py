"""Computes late reads: what groups read on the source after their offsets were translated, and so re-read.

A consumer that does not learn of the move before its hold expires continues there; one that does not use discovery
never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backend.domain.offsets.commit_rules import CommittedOffset
from backend.domain.offsets.offset_map import GroupPartition
from workers.switches.closing import OWN_PROGRESS, TranslatedOffset
from workers.switches.outcome import group_name
from workers.switches.topology import Partition

Stood = dict[str, dict[str, dict[str, int]]]
"""Group -> stream -> partition (a string, as JSON keys are) -> offset."""
_NOTED = 20_000
"""Limit of commits that are stored, since an event must stay small."""


def translated_commits(carried: Sequence[TranslatedOffset]) -> Stood | None:
    """Return the translated commits to be stored with the event; None if they are too many."""
    # A group whose progress is on the target already resumes there, too.
    done = [one for one in carried if one.refused in (None, OWN_PROGRESS)]
    if len(done) > _NOTED:
        return None
    found: Stood = {}
    for one in sorted(done, key=lambda each: each.group_partition):
        of_stream = found.setdefault(group_name(one.group_partition), {}).setdefault(
            one.group_partition.stream_name, {}
        )
        of_stream[str(one.group_partition.partition)] = one.source_offset
    return found


def since(
    noted: Stood,
    committed: Mapping[GroupPartition, CommittedOffset],
    ends: Mapping[Partition, int],
    at_work: Mapping[str, Mapping[Partition, int]],
) -> list[dict[str, Any]]:
    """Return the groups that read more than was translated, with an upper bound of records, the most first.

    Entries have group, stream, partition and records.

    `ends`: of the logs, after those commits. A consumer may have read more than it has committed, up to there.
    `at_work`: group -> where the logs ended when it was seen last with members.
    """
    # An offset that was set for a group after commits on other clusters was not read here.
    now = {
        _key(group_partition): stands.offset or 0
        for group_partition, stands in committed.items()
        if stands.is_fresh
    }
    found = []
    for group, stream, partition, offset in _each(noted):
        committed_now = now.get((group, stream, partition), 0)
        until = at_work.get(group, {}).get((stream, partition), 0)
        if committed_now > offset:
            until = max(until, committed_now, ends.get((stream, partition), 0))
        if until > offset:
            row = {"group": group, "stream": stream, "partition": partition, "records": until - offset}
            found.append(row)
    return sorted(found, key=lambda each: -each["records"])


def _each(noted: Stood) -> Iterator[tuple[str, str, int, int]]:
    for group, streams in noted.items():
        for stream, partitions in streams.items():
            for partition, offset in partitions.items():
                yield group, stream, int(partition), offset


def _key(group_partition: GroupPartition) -> tuple[str, str, int]:
    return group_name(group_partition), group_partition.stream_name, group_partition.partition
