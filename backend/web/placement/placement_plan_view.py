"""The view of a plan: figures, violations, brokers before and after, grids, and changed partitions.

It is built from the plan's documents, which take seconds to read for hundreds of thousands of partitions; the view
itself is small and never changes.
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
"""Maximum number of brokers and of partitions in the tables."""
_KEPT = 8
"""Number of plans that are cached."""


@dataclass(frozen=True)
class Figure:
    """A figure of the plan; `because` explains it."""

    label: str
    value: str
    because: str
    tone: str = ""


@dataclass(frozen=True)
class Broken:
    """A rule that the plan violates."""

    rule: str
    detail: str
    partitions: Sequence[str]
    count: int


@dataclass(frozen=True, kw_only=True)
class PlanView:
    """All that the page shows of a plan."""

    figures: Sequence[Figure]
    broken: Sequence[Broken]
    notes: Sequence[str]
    drawing: Drawing | None
    """Drawing of the grids; None if there are no partitions."""
    seen: str
    """Text alternative of the drawing."""
    brokers: Sequence[Broker]
    brokers_in_all: int
    changes: Sequence[Change]
    changes_in_all: int
    partitions: int


class Plans:
    """Cache of the plans viewed last."""

    def __init__(self) -> None:
        # Held while a view is built: two at once of a large cluster would need its memory twice.
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str | None], PlanView] = {}

    def view(self, placement: str, digest: str | None, read: Callable[[], PlanDocuments]) -> PlanView:
        """Return the view of a placement's plan; `read` is called if it is not cached."""
        key = (placement, digest)
        with self._lock:
            found = self._kept.pop(key, None) or plan_view(read())
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found


def plan_view(documents: PlanDocuments) -> PlanView:
    """Build the view from the documents that a worker has stored."""
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
    available = [broker for broker in compared.brokers if broker.kind != GONE]
    after = [broker for broker in available if broker.replicas_after]
    bounds = [
        Figure("Minimum moves", full(least), "lower bound for a balanced placement"),
        Figure(
            "Above minimum",
            full(gap),
            "moves beyond the lower bound",
            "good" if gap == 0 else "warn" if gap else "",
        ),
    ]
    return [
        Figure("Replica moves", full(moves), "replicas copied to a broker without one of the partition"),
        # A submitted plan was not minimized.
        *([] if plan.get("given") else bounds),
        Figure("Data to move", sized(plan.get("moved_bytes")), "by partition sizes when the plan was made"),
        Figure("Leader changes", full(plan.get("leader_changes")), "partitions with another preferred leader"),
        Figure(
            "Worst-case failover share",
            "–" if share is None else f"{100 * share:.0f} %",
            "of a failed broker's leaders go to a single other broker at most",
        ),
        Figure(
            "Replicas per broker",
            _range([broker.replicas_after for broker in after]),
            f"before: {_range([broker.replicas for broker in available])}",
        ),
        Figure(
            "Leaders per broker",
            _range([broker.leaders_after for broker in after]),
            f"before: {_range([broker.leaders for broker in available])}",
        ),
    ]


def _range(values: Sequence[int]) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _seen(brokers: Sequence[Broker]) -> str:
    """Describe the brokers; the table below has the figures."""
    parts = [f"{len(brokers):,} brokers in {len({each.rack for each in brokers}):,} racks"]
    for kind, what in (("new", "get their first replicas"), ("emptied", "are emptied"), ("empty", "stay empty")):
        count = sum(each.kind == kind for each in brokers)
        parts += [f"{count:,} {what}"] if count else []
    return "; ".join(parts)
