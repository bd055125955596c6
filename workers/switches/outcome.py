"""Summarizes translated offsets in the figures of a switch's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.domain.base.known import total
from backend.domain.offsets.offset_map import GroupPartition
from workers.switches.closing import MEMBERS, OWN_PROGRESS, SOME_STAY, ActiveGroup, TranslatedOffset

NAMED = 200
"""Limit of groups, or clients, that are named, since an event must stay small."""


def translation_summary(carried: Sequence[TranslatedOffset]) -> dict[str, Any]:
    """Return how many groups and offsets were translated, the re-read bound, and the refused groups."""
    set_there = [one for one in carried if one.refused is None]
    again = sorted((one for one in set_there if one.re_read_bound != 0), key=_worst_first)
    refused = {
        _group(one): one.refused
        for one in carried
        # A group that made its progress on the target needs no offset there.
        if one.refused not in (None, OWN_PROGRESS)
    }
    return {
        "groups": len({_group(one) for one in set_there}),
        "offsets": len(set_there),
        "re_read_bound": total(one.re_read_bound for one in set_there),
        "read_again": [_read_again(one) for one in again[:NAMED]],
        "refused": [{"group": group, "reason": reason} for group, reason in sorted(refused.items())[:NAMED]],
        "refused_in_all": len(refused),
    }


def _worst_first(one: TranslatedOffset) -> tuple[bool, int, str, str, int]:
    """Sort unknown bounds first, then the largest."""
    group_partition, bound = one.group_partition, one.re_read_bound
    return (
        bound is not None,
        -(bound or 0),
        group_partition.group,
        group_partition.stream_name,
        group_partition.partition,
    )


def _read_again(one: TranslatedOffset) -> dict[str, Any]:
    group_partition = one.group_partition
    partition = {"stream": group_partition.stream_name, "partition": group_partition.partition}
    return {"group": _group(one), **partition, "records": one.re_read_bound}


def retryable_groups(carried: Sequence[TranslatedOffset]) -> list[str]:
    """Return the groups whose offsets can be retried; groups with members are left to the operator."""
    left = {
        one.group_partition.group for one in carried if one.refused not in (None, OWN_PROGRESS, MEMBERS, SOME_STAY)
    }
    return sorted(left)[:NAMED]


def _group(one: TranslatedOffset) -> str:
    return group_name(one.group_partition)


def group_name(whose: GroupPartition | ActiveGroup) -> str:
    """Return a group's full logical name."""
    return "/".join((whose.tenant, whose.instance, whose.environment, whose.group))
