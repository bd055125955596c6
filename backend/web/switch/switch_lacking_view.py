"""The partitions that a switch still waits for, as its runner has told them: the worst, and how many more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.web.switch.switch_words import number


@dataclass(frozen=True, kw_only=True)
class LackingPartition:
    """One that has not come to a cluster as a whole."""

    stream: str
    partition: int
    target: str
    records: int
    """At most so many are still to come."""
    waits_for: str | None


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """`left`: of all, each counted once for each cluster that has to have it."""

    shown: Sequence[LackingPartition] = ()
    left: int = 0

    @property
    def more(self) -> int:
        return max(0, self.left - len(self.shown))


def lacking_of(told: Mapping[str, Any]) -> Lacking:
    """Told by whatever version of this program: what cannot be read is left out."""
    found = told.get("lacking")
    shown = [one for each in found if (one := _one(each)) is not None] if isinstance(found, list) else []
    return Lacking(shown=shown, left=max(len(shown), number(told, "left") or 0))


def _one(told: Any) -> LackingPartition | None:
    match told:
        case {
            "stream": str(stream),
            "partition": int(partition),
            "target": str(target),
            "missing_records": int(records),
        }:
            why = told.get("waits_for")
            return LackingPartition(
                stream=stream,
                partition=partition,
                target=target,
                records=records,
                waits_for=why if isinstance(why, str) else None,
            )
    return None
