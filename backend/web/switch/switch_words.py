"""Texts about switches: scope, durations, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from backend.domain.switch.cluster_switch import EMERGENCY, Moving, Phase
from backend.domain.switch.switch_report import PhaseTimes, milliseconds
from backend.queries.switch.switches import SwitchRow
from backend.web.forms.effect import listed
from backend.web.words.figures import counted

LABELS = {
    Phase.PLANNED: "Preparing",
    Phase.HOLDING: "Holding",
    Phase.DRAINING: "Draining",
    Phase.CLOSING: "Closing",
    Phase.RETARGETING: "Retargeting",
    Phase.MOVING: "Moving",
    Phase.VERIFYING: "Verifying",
    Phase.COMPLETED: "Completed",
    Phase.ABORTED: "Aborted",
    Phase.FAILED: "Failed",
}
GLYPHS = {Phase.COMPLETED: "running", Phase.ABORTED: "stopped", Phase.FAILED: "blocked"}
"""Glyphs of final states."""


def place_of(moving: Moving) -> str:
    """Return a place as text: `acme/retail/prod`, `acme/retail/prod in zone az2`."""
    place = "/".join(moving.place)
    return f"{place} in zone {moving.zone}" if moving.zone else place


def scope(moves: Sequence[Moving]) -> str:
    """Return the scope of a switch in a few words."""
    if len(moves) == 1:
        return place_of(moves[0])
    places, tenants = {moving.place for moving in moves}, sorted({moving.tenant for moving in moves})
    zones = sorted({moving.zone for moving in moves if moving.zone})
    owners = tenants[0] if len(tenants) == 1 else counted(len(tenants), "tenant")
    where = f" in zone {zones[0]}" if len(zones) == 1 and all(moving.zone for moving in moves) else ""
    return f"{counted(len(places), 'environment')} of {owners}{where}"


def moment(iso: str) -> datetime:
    """Parse a phase's time."""
    return datetime.fromisoformat(iso)


def held_ms(row: SwitchRow, phases: Sequence[PhaseTimes], now: datetime | None) -> int | None:
    """Return for how many milliseconds producers were told to hold.

    None if they never were, or if they still hold and `now` is None.
    """
    if row.report is not None and isinstance(row.report.get("producers_held_ms"), int):
        return row.report["producers_held_ms"] or None
    began = next((phase.started_at for phase in phases if phase.name == Phase.HOLDING), None)
    if began is None:
        return None
    ended = next((phase.started_at for phase in phases if phase.name == Phase.VERIFYING), phases[-1].ended_at)
    if ended is None:
        return None if now is None else milliseconds(began, now.isoformat())
    return milliseconds(began, ended)


def result(row: SwitchRow, phases: Sequence[PhaseTimes]) -> str:
    """Return the result of a switch, or its progress."""
    match row.state:
        case Phase.COMPLETED:
            return _completed(row)
        case Phase.ABORTED | Phase.FAILED:
            ended = "aborted" if row.state is Phase.ABORTED else "failed"
            where = f"{ended} while {phases[-1].name}" if phases else ended
            return f"{where}: {row.reason}" if row.reason else where
        case Phase.VERIFYING:
            return "clients moved; verifying that they arrive"
        case Phase.PLANNED:
            return "in progress; clients do not hold yet"
        case _:
            return "in progress; producers hold"


def awaits_stranded(row: SwitchRow) -> bool:
    """Return whether unreplicated records of the old cluster are still to arrive."""
    return bool((row.report or {}).get("stranded")) and row.arrived is None


def troubles(row: SwitchRow) -> list[str]:
    """Return the findings in a switch's report that need an operator's attention."""
    report: dict[str, Any] = row.report or {}
    lost, stray = report.get("not_drained_records"), report.get("stray_records")
    said = [f"{counted(lost, 'record')} not drained"] if lost else []
    said += [f"{counted(stray, 'residual write')} to {row.source}"] if stray else []
    read_on = report.get("read_on") or []
    if read_on:
        again = counted(sum(each["records"] for each in read_on), "record")
        said.append(f"at most {again} re-read after late reads on {row.source}")
    if awaits_stranded(row):
        said.append(
            f"{counted(len(report['stranded']), 'partition')} with possible unreplicated records on {row.source}"
        )
    gone = (row.arrived or {}).get("lost")
    if gone:
        said.append(f"lost records in {counted(len(gone), 'partition')} of {row.source}")
    named = (
        ("forced_clients", "client", "forced"),
        ("late_clients", "client", "late"),
        ("silent_clients", "client", "without a report"),
        ("refused_groups", "group", "refused"),
        ("groups_left_behind", "group", "left behind"),
    )
    return [
        *said,
        # Long lists are cut in the report; their full number is stored separately.
        *(
            f"{counted(report.get(f'{name}_in_all') or len(report[name]), noun)} {what}"
            for name, noun, what in named
            if report.get(name)
        ),
    ]


def _completed(row: SwitchRow) -> str:
    report: dict[str, Any] = row.report or {}
    if row.mode == EMERGENCY:
        said = "moved at once, without waiting"
    else:
        said = "moved, all records drained" if report.get("not_drained_records") == 0 else "moved"
    return ", ".join([said, *troubles(row)])


def came_to(phase: str, measured: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the measurements of a phase in words; tolerates those of other versions of this program."""
    said: list[str] = []
    if lost := names(measured, "ran_out"):
        said.append(f"hold expired: {_some(lost)}")
    match phase:
        case Phase.PLANNED:
            said += _counted(measured, "missing_records", "record", "left to copy")
        case Phase.HOLDING:
            said += _counted(measured, "clients", "client", "")
            if forced := names(measured, "forced"):
                said.append(f"{len(forced)} forced")
        case Phase.DRAINING:
            said += _counted(measured, "partitions", "partition", "")
            said += _counted(measured, "not_drained_records", "record", "not drained")
        case Phase.CLOSING:
            said += _counted(measured, "groups", "group", "") + _counted(measured, "offsets", "offset", "set")
            if (bound := number(measured, "re_read_bound")) is not None:
                said.append(f"at most {counted(bound, 'record')} re-read")
            if refused := measured.get("refused"):
                said.append(f"{counted(len(refused), 'group')} refused")
        case Phase.RETARGETING:
            said += _counted(measured, "distributors", "distributor", "")
        case Phase.VERIFYING:
            said += _counted(measured, "clients", "client", "on the target")
            if late := names(measured, "late"):
                said.append(f"{len(late)} late")
    return tuple(said)


def _counted(measured: Mapping[str, Any], name: str, noun: str, more: str) -> list[str]:
    found = number(measured, name)
    return [] if found is None else [f"{counted(found, noun)} {more}".rstrip()]


def number(given: Mapping[str, Any], name: str) -> int | None:
    """Return the number under this name; None if there is none."""
    found = given.get(name)
    return found if isinstance(found, int) else None


def names(given: Mapping[str, Any], name: str) -> list[str]:
    """Return the strings in the list under this name; none if there is no list."""
    found = given.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list | tuple) else []


def _some(words: Sequence[str]) -> str:
    return listed(words) if len(words) <= 3 else f"{', '.join(words[:3])} and {len(words) - 3} more"
