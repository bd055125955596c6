"""The report of a switch, built from its phases: how long clients could not write, and what was left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from backend.domain.base.known import total
from backend.domain.switch.cluster_switch import MARKED, Phase
from backend.domain.switch.switch_commands import AT_RISK

WRITTEN = "written_until"
"""Key among the drain's measurements: end, by stream and partition, of the records produced on the source."""
STOOD = "stood"
"""Key among the closing's measurements: translated commits by group, stream and partition; null if too many."""
NOTES = frozenset({WRITTEN, STOOD, MARKED})
"""Measurements that are internal to the switch and left out of answers."""


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """A phase: its start, its end (None: not ended) as ISO 8601, and its measurements."""

    name: str
    started_at: str
    ended_at: str | None
    measured: Mapping[str, Any]

    def as_answer(self) -> dict[str, Any]:
        """Return the phase as answers show it."""
        return {**asdict(self), "measured": {k: v for k, v in self.measured.items() if k not in NOTES}}


@dataclass(frozen=True, kw_only=True)
class Found:
    """State of clients and records after the move."""

    clients: int
    """Moved clients that reported in the new generation."""
    late: Sequence[str]
    """Moved clients that did not."""
    silent: Sequence[str]
    """Clients that the switch did not wait for, since they had not reported for long; if they run, they learn of
    it late. The list is cut; `silent_in_all` is their number."""
    silent_in_all: int
    """Number of silent clients."""
    left_behind: Sequence[str]
    """Groups that still have members on the old cluster. The list is cut; `left_behind_in_all` is their number."""
    left_behind_in_all: int
    """Number of groups left behind."""
    stray_records: int | None
    """Residual writes: records produced on the old cluster after the drain was measured, by clients that do not
    use discovery. They are distributed like all others; their order relative to later records is not guaranteed.
    None: the cluster could not be queried."""
    read_on: Sequence[Mapping[str, Any]] | None
    """Groups that read on there after their offsets were translated, by stream and partition: they re-read at most
    `records`. None: unknown."""
    stranded: Sequence[Mapping[str, Any]] = ()
    """Unreplicated records of an emergency switch, by stream and partition, from offset `first` on."""


def report(phases: Sequence[PhaseTimes], forced: Sequence[str], found: Found) -> dict[str, Any]:
    """Return the report of a switch whose clients were moved."""
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
        # Late reads on the source are re-read as well.
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
    """Return the milliseconds between two times in ISO 8601."""
    return round((datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds() * 1000)
