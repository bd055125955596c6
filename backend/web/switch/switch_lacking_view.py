"""Partitions that a switch waits for, as its runner reported them: the worst ones, and the number of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.web.switch.switch_words import number


@dataclass(frozen=True, kw_only=True)
class LackingPartition:
    """A partition whose records have not all arrived on a cluster."""

    stream: str
    partition: int
    target: str
    records: int
    """Upper bound of the records still to arrive."""
    waits_for: str | None


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Missing partitions; `left` counts all of them, once for each cluster that needs the partition."""

    shown: Sequence[LackingPartition] = ()
    left: int = 0

    @property
    def more(self) -> int:
        """Return the number of partitions that are not shown."""
        return max(0, self.left - len(self.shown))


def lacking_of(told: Mapping[str, Any]) -> Lacking:
    """Return the partitions in a progress report; entries of another version that cannot be read are left out."""
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
