"""What pages say of switches: whom one moves, how long things took, what it came to."""

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
    Phase.FAILED: "Taken back",
}
GLYPHS = {Phase.COMPLETED: "running", Phase.ABORTED: "stopped", Phase.FAILED: "blocked"}
"""Of states in which nothing goes on any more."""


def place_of(moving: Moving) -> str:
    """`acme/retail/prod`, `acme/retail/prod in zone az2`."""
    place = "/".join(moving.place)
    return f"{place} in zone {moving.zone}" if moving.zone else place


def scope(moves: Sequence[Moving]) -> str:
    """Whom a switch moves, in a few words."""
    if len(moves) == 1:
        return place_of(moves[0])
    places, tenants = {moving.place for moving in moves}, sorted({moving.tenant for moving in moves})
    zones = sorted({moving.zone for moving in moves if moving.zone})
    owners = tenants[0] if len(tenants) == 1 else counted(len(tenants), "tenant")
    where = f" in zone {zones[0]}" if len(zones) == 1 and all(moving.zone for moving in moves) else ""
    return f"{counted(len(places), 'environment')} of {owners}{where}"


def moment(iso: str) -> datetime:
    """A phase's time."""
    return datetime.fromisoformat(iso)


def held_ms(row: SwitchRow, phases: Sequence[PhaseTimes], now: datetime | None) -> int | None:
    """For how long producers have been told to hold; None if they never were, or still are and `now` is None."""
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
    """What a switch came to, or where it is."""
    match row.state:
        case Phase.COMPLETED:
            return _completed(row)
        case Phase.ABORTED | Phase.FAILED:
            back = f"taken back while {phases[-1].name}" if phases else "taken back"
            return f"{back}: {row.reason}" if row.reason else back
        case Phase.VERIFYING:
            return "clients are moved, and looked for there"
        case Phase.PLANNED:
            return "under way; nobody is held yet"
        case _:
            return "under way; producers hold"


def awaits_stranded(row: SwitchRow) -> bool:
    """Whether records that only the cluster that was left has, are still to come."""
    return bool((row.report or {}).get("stranded")) and row.arrived is None


def troubles(row: SwitchRow) -> list[str]:
    """What the report of a switch names that an operator should look at."""
    report: dict[str, Any] = row.report or {}
    lost, stray = report.get("not_drained_records"), report.get("stray_records")
    said = [f"{counted(lost, 'record')} not drained"] if lost else []
    said += [f"{counted(stray, 'record')} written to {row.source} since"] if stray else []
    read_on = report.get("read_on") or []
    if read_on:
        again = counted(sum(each["records"] for each in read_on), "record")
        said.append(f"{again} at most read on {row.source} since, and again")
    if awaits_stranded(row):
        said.append(f"{counted(len(report['stranded']), 'partition')} perhaps with records only on {row.source}")
    gone = (row.arrived or {}).get("lost")
    if gone:
        said.append(f"records of {counted(len(gone), 'partition')} lost with {row.source}")
    named = (
        ("forced_clients", "client", "not waited for"),
        ("late_clients", "client", "late"),
        ("silent_clients", "client", "not heard of"),
        ("refused_groups", "group", "refused"),
        ("groups_left_behind", "group", "left behind"),
    )
    return [
        *said,
        # Of those that may be many only some are named.
        *(
            f"{counted(report.get(f'{name}_in_all') or len(report[name]), noun)} {what}"
            for name, noun, what in named
            if report.get(name)
        ),
    ]


def _completed(row: SwitchRow) -> str:
    report: dict[str, Any] = row.report or {}
    if row.mode == EMERGENCY:
        said = "moved at once, nothing was waited for"
    else:
        said = "moved, every record drained" if report.get("not_drained_records") == 0 else "moved"
    return ", ".join([said, *troubles(row)])


def came_to(phase: str, measured: Mapping[str, Any]) -> tuple[str, ...]:
    """What a phase came to, in words; measured by whatever version of this program."""
    said: list[str] = []
    if lost := names(measured, "ran_out"):
        said.append(f"the hold ran out: {_some(lost)}")
    match phase:
        case Phase.PLANNED:
            said += _counted(measured, "missing_records", "record", "left to copy")
        case Phase.HOLDING:
            said += _counted(measured, "clients", "client", "")
            if forced := names(measured, "forced"):
                said.append(f"{len(forced)} not waited for")
        case Phase.DRAINING:
            said += _counted(measured, "partitions", "partition", "")
            said += _counted(measured, "not_drained_records", "record", "not drained")
        case Phase.CLOSING:
            said += _counted(measured, "groups", "group", "") + _counted(measured, "offsets", "offset", "set")
            said += _counted(measured, "re_read_bound", "record", "read again at most")
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
    """What stands there under this name, if it is a number; measured by whatever version of this program."""
    found = given.get(name)
    return found if isinstance(found, int) else None


def names(given: Mapping[str, Any], name: str) -> list[str]:
    """The words in the list that stands there under this name, if one does."""
    found = given.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list | tuple) else []


def _some(words: Sequence[str]) -> str:
    return listed(words) if len(words) <= 3 else f"{', '.join(words[:3])} and {len(words) - 3} more"
