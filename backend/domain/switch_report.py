"""What a switch came to, told from its phases: how long clients could not write, what comes again, who is
named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backend.domain.cluster_switch import Phase


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """A phase: when it began and ended (None: not yet), as ISO 8601, and what it came to."""

    name: str
    started_at: str
    ended_at: str | None
    measured: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found after the move."""

    clients: int
    """Of those that the switch moved, seen in its generation."""
    late: Sequence[str]
    """Clients that were not."""
    silent: Sequence[str]
    """Clients that nobody waited for, since they had been silent for long; if they run, they hear of it late."""
    left_behind: Sequence[str]
    """Groups that still have members on the cluster that was left."""
    stray_records: int | None
    """Born on that cluster after the drain was measured: written by clients that do not follow discovery. They are
    distributed like all others; their order to what follows is not promised. None: it could not be asked."""
    stranded: Sequence[Mapping[str, Any]] = ()
    """Of an emergency: what no other leaf had, by stream and partition, from `first` on."""


def report(phases: Sequence[PhaseTimes], forced: Sequence[str], found: Found) -> dict[str, Any]:
    """The report of a switch whose clients were moved."""
    measured = {phase.name: phase.measured for phase in phases}
    moved_at = next(phase.started_at for phase in phases if phase.name == Phase.VERIFYING)
    held_at = next((phase.started_at for phase in phases if phase.name == Phase.HOLDING), moved_at)
    closing = measured.get(Phase.CLOSING, {})
    draining = measured.get(Phase.DRAINING, {})
    return {
        "duration_ms": milliseconds(phases[0].started_at, moved_at),
        "producers_held_ms": milliseconds(held_at, moved_at),
        "not_drained_records": draining.get("not_drained_records"),
        "drained_partitions": draining.get("partitions"),
        "groups": closing.get("groups"),
        "offsets": closing.get("offsets"),
        "re_read_bound": closing.get("re_read_bound"),
        "read_again": closing.get("read_again", []),
        "refused_groups": closing.get("refused", []),
        "forced_clients": list(forced),
        "clients_moved": found.clients,
        "late_clients": list(found.late),
        "silent_clients": list(found.silent),
        "groups_left_behind": list(found.left_behind),
        "stray_records": found.stray_records,
        "stranded": [dict(each) for each in found.stranded],
    }


def milliseconds(since: str, until: str) -> int:
    """Between two times in ISO 8601."""
    return round((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000)
