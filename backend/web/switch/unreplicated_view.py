"""Unreplicated records of an emergency switch, by partition, with their outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.domain.switch.switch_commands import AT_RISK
from backend.queries.switch.switches import SwitchRow
from backend.web.switch.switch_words import number
from backend.web.words.figures import counted, full

_LATE, _LOST, _NOTHING = "good", "bad", ""
_WORST_FIRST = (_LOST, _LATE, _NOTHING)


@dataclass(frozen=True, kw_only=True)
class UnreplicatedPartition:
    """A partition, from the first offset that no other leaf had; `tone` marks the outcome."""

    stream: str
    partition: int
    first: int
    became: str
    tone: str


@dataclass(frozen=True, kw_only=True)
class UnreplicatedView:
    """Unreplicated records of the report, the worst first."""

    rows: list[UnreplicatedPartition]
    at_risk: int | None
    """Records of all tenants that distributors last saw on that cluster only, when the switch was started."""
    arrived: int | None
    """Upper bound of records that arrived late; None: the cluster is not back, or they have not all arrived."""
    lost: int
    """Number of partitions with lost records, known or possible."""


def unreplicated_of(row: SwitchRow) -> UnreplicatedView | None:
    """Return the unreplicated records that the report of a switch names; None if it names none."""
    report = row.report or {}
    stranded = report.get("stranded") or []
    if not stranded:
        return None
    late, lost = _by_place(row.arrived, "partitions"), _by_place(row.arrived, "lost")
    rows = [_left(each, late, lost, is_known=row.arrived is not None) for each in stranded]
    rows.sort(key=lambda each: (_WORST_FIRST.index(each.tone), each.stream, each.partition))
    return UnreplicatedView(
        rows=rows,
        at_risk=number(report, AT_RISK),
        arrived=None if row.arrived is None else row.arrived["records"],
        lost=sum(each.tone == _LOST for each in rows),
    )


_ByPlace = Mapping[tuple[str, int], Sequence[Sequence[Any]]]
"""(stream, partition) -> entries about the partition, each beginning with both."""


def _by_place(arrived: Mapping[str, Any] | None, name: str) -> _ByPlace:
    found: dict[tuple[str, int], list[Sequence[Any]]] = {}
    for each in (arrived or {}).get(name, ()):
        found.setdefault((each[0], each[1]), []).append(each)
    return found


def _left(stranded: Mapping[str, Any], late: _ByPlace, lost: _ByPlace, *, is_known: bool) -> UnreplicatedPartition:
    stream, partition, first = stranded["stream"], stranded["partition"], stranded["first"]
    place, tone = (stream, partition), _NOTHING
    if not is_known:
        records = stranded.get("records")
        became = "unknown" if records is None else counted(records, "record")
    else:
        said = [f"offsets {full(each[2])} to {full(each[3])} arrived late" for each in late.get(place, ())]
        said += ["lost, or deleted before their arrival was observed"] if place in lost else []
        became = ", ".join(said) or "no records"
        tone = _LOST if place in lost else _LATE if place in late else _NOTHING
    return UnreplicatedPartition(stream=stream, partition=partition, first=first, became=became, tone=tone)
