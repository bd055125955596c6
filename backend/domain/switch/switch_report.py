"""What a switch came to, told from its phases: how long clients could not write, what comes again, who is
named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from backend.domain.base.known import total
from backend.domain.switch.cluster_switch import MARKED, Phase
from backend.domain.switch.switch_commands import AT_RISK

WRITTEN = "written_until"
"""Of the drain's measurements: by stream and partition, where the records ended that were born on the source."""
STOOD = "stood"
"""Of the closing's measurements: the commits that were carried over, by group, stream and partition; null if they
were too many."""
NOTES = frozenset({WRITTEN, STOOD, MARKED})
"""What a switch notes for itself among its measurements: told to nobody else."""


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """A phase: when it began and ended (None: not yet), as ISO 8601, and what it came to."""

    name: str
    started_at: str
    ended_at: str | None
    measured: Mapping[str, Any]

    def told(self) -> dict[str, Any]:
        """As answers have it."""
        return {**asdict(self), "measured": {k: v for k, v in self.measured.items() if k not in NOTES}}


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found after the move."""

    clients: int
    """Of those that the switch moved, seen in its generation."""
    late: Sequence[str]
    """Clients that were not."""
    silent: Sequence[str]
    """Clients that nobody waited for, since they had been silent for long; if they run, they hear of it late. Not
    all are named:"""
    silent_in_all: int
    """so many there were."""
    left_behind: Sequence[str]
    """Groups that still have members on the cluster that was left. Not all are named:"""
    left_behind_in_all: int
    """so many there were."""
    stray_records: int | None
    """Born on that cluster after the drain was measured: written by clients that do not follow discovery. They are
    distributed like all others; their order to what follows is not promised. None: it could not be asked."""
    read_on: Sequence[Mapping[str, Any]] | None
    """Groups that went on there after their offsets were carried over, by stream and partition: at most so many
    `records` come to them again. None: it could not be told."""
    stranded: Sequence[Mapping[str, Any]] = ()
    """Of an emergency: what no other leaf had, by stream and partition, from `first` on."""


def report(phases: Sequence[PhaseTimes], forced: Sequence[str], found: Found) -> dict[str, Any]:
    """The report of a switch whose clients were moved."""
    measured = {phase.name: phase.measured for phase in phases}
    moved_at = next(phase.started_at for phase in phases if phase.name == Phase.VERIFYING)
    held_at = next((phase.started_at for phase in phases if phase.name == Phase.HOLDING), moved_at)
    closing = measured.get(Phase.CLOSING, {})
    draining = measured.get(Phase.DRAINING, {})
    planned = measured.get(Phase.PLANNED, {})
    at_risk = {AT_RISK: planned[AT_RISK]} if AT_RISK in planned else {}  # of an emergency only
    read_on = None if found.read_on is None else sum(each["records"] for each in found.read_on)
    return {
        "duration_ms": milliseconds(phases[0].started_at, moved_at),
        "producers_held_ms": milliseconds(held_at, moved_at),
        "not_drained_records": draining.get("not_drained_records"),
        "drained_partitions": draining.get("partitions"),
        "groups": closing.get("groups"),
        "offsets": closing.get("offsets"),
        # What was read on there since comes again, too.
        "re_read_bound": total((closing.get("re_read_bound"), read_on)),
        "read_again": closing.get("read_again", []),
        "refused_groups": closing.get("refused", []),
        "refused_groups_in_all": closing.get("refused_in_all", 0),
        "forced_clients": list(forced),
        "clients_moved": found.clients,
        "late_clients": list(found.late),
        "silent_clients": list(found.silent),
        "silent_clients_in_all": found.silent_in_all,
        "groups_left_behind": list(found.left_behind),
        "groups_left_behind_in_all": found.left_behind_in_all,
        "stray_records": found.stray_records,
        "read_on": None if found.read_on is None else [dict(each) for each in found.read_on],
        "stranded": [dict(each) for each in found.stranded],
        **at_risk,
    }


def milliseconds(since: str, until: str) -> int:
    """Between two times in ISO 8601."""
    return round((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000)
