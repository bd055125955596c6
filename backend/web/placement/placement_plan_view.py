"""A plan as its page shows it: figures, what cannot be kept, brokers before and after, the grids, what changes.

Made from the plan's documents, which take seconds to read where there are hundreds of thousands of partitions;
what is shown is small, and never changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.queries.placement.placements import PlanDocuments
from backend.web.placement.placement_compared import GONE, Broker, Change, Compared, compare
from backend.web.placement.placement_drawing import Drawing, draw
from backend.web.placement.placement_heat import heat
from backend.web.placement.placement_view import RULES
from backend.web.words.figures import full, sized

_SHOWN = 200
"""Brokers and partitions that are listed at most."""
_KEPT = 8
"""Plans that are remembered."""


@dataclass(frozen=True)
class Figure:
    """One of the plan; `because`: what it means."""

    label: str
    value: str
    because: str
    tone: str = ""


@dataclass(frozen=True)
class Broken:
    """What cannot be kept."""

    rule: str
    detail: str
    partitions: Sequence[str]
    count: int


@dataclass(frozen=True, kw_only=True)
class PlanView:
    """All that is shown of a plan."""

    figures: Sequence[Figure]
    broken: Sequence[Broken]
    notes: Sequence[str]
    drawing: Drawing | None
    """None: there are no partitions."""
    seen: str
    """What the drawing shows, for those who do not see it."""
    brokers: Sequence[Broker]
    brokers_in_all: int
    changes: Sequence[Change]
    changes_in_all: int
    partitions: int


class Plans:
    """The last plans that were looked at."""

    def __init__(self) -> None:
        # Held while one is made: two at once of a large cluster would need its memory twice.
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str | None], PlanView] = {}

    def view(self, placement: str, digest: str | None, read: Callable[[], PlanDocuments]) -> PlanView:
        """Of this placement; `read` is asked if it was not looked at lately."""
        key = (placement, digest)
        with self._lock:
            found = self._kept.pop(key, None) or plan_view(read())
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found


def plan_view(documents: PlanDocuments) -> PlanView:
    """Of what a worker has kept."""
    plan = documents.plan
    compared = compare(documents.question, plan)
    brokers = list(compared.brokers)
    if len(brokers) > _SHOWN:
        brokers = sorted(brokers, key=lambda each: -each.changes)[:_SHOWN]
    return PlanView(
        figures=_figures(plan, compared),
        broken=[
            Broken(
                rule=RULES.get(each["constraint"], each["constraint"]),
                detail=each["detail"],
                partitions=each["partitions"][:_SHOWN],
                count=each["count"],
            )
            for each in plan.get("violations", ())
        ],
        notes=plan.get("notes", ()),
        drawing=draw(heat(compared)) if compared.places and compared.brokers else None,
        seen=_seen(compared.brokers),
        brokers=brokers,
        brokers_in_all=len(compared.brokers),
        changes=compared.changed[:_SHOWN],
        changes_in_all=len(compared.changed),
        partitions=len(compared.places),
    )


def _figures(plan: Mapping[str, Any], compared: Compared) -> list[Figure]:
    moves, least, share = plan.get("moves"), plan.get("lower_bound"), plan.get("largest_share")
    gap = None if moves is None or least is None else moves - least
    there = [broker for broker in compared.brokers if broker.kind != GONE]
    after = [broker for broker in there if broker.replicas_after]
    bounds = [
        Figure("Fewest possible", full(least), "what the balance asks for at least"),
        Figure("More than that", full(gap), "the gap to the bound", "good" if gap == 0 else "warn" if gap else ""),
    ]
    return [
        Figure("Replicas that move", full(moves), "copied to a broker that has none of their partition"),
        # Of one that was handed in nothing was to be the least.
        *([] if plan.get("given") else bounds),
        Figure("To be copied", sized(plan.get("moved_bytes")), "as large as partitions were then"),
        Figure("Leaders that change", full(plan.get("leader_changes")), "partitions led by another broker"),
        Figure(
            "Largest inheritance",
            "–" if share is None else f"{100 * share:.0f} %",
            "of what a broker leads goes to one other when it dies, at most",
        ),
        Figure(
            "Replicas per broker",
            _range([broker.replicas_after for broker in after]),
            f"before: {_range([broker.replicas for broker in there])}",
        ),
        Figure(
            "Leaders per broker",
            _range([broker.leaders_after for broker in after]),
            f"before: {_range([broker.leaders for broker in there])}",
        ),
    ]


def _range(values: Sequence[int]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _seen(brokers: Sequence[Broker]) -> str:
    """The table below has the same, figure by figure."""
    said = [f"{len(brokers):,} brokers in {len({each.rack for each in brokers}):,} racks"]
    for kind, what in (("new", "get their first replicas"), ("emptied", "are emptied"), ("empty", "stay empty")):
        count = sum(each.kind == kind for each in brokers)
        said += [f"{count:,} {what}"] if count else []
    return "; ".join(said)
