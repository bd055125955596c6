"""The view of a placement: its state, the request, and a one-line result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState
from backend.queries.base.names_of_events import PlacementNamed
from backend.queries.placement.placements import PlacementRow
from backend.web.placement.placement_run_view import PlacementRunView
from backend.web.words.figures import counted, id_ranges, span
from backend.web.words.names import placement_name, placement_number

PLACEMENTS = ("Placements", "/placements")
"""Link to the list of placements, as a trail shows it."""
_LABELS = {
    PlacementState.REQUESTED: "Computing plan",
    PlacementState.PLANNED: "Planned",
    PlacementState.FAILED: "Planning failed",
    PlacementState.APPLYING: "Applying",
    PlacementState.PAUSED: "Paused",
    PlacementState.CANCELLING: "Cancelling",
    PlacementState.ROLLING_BACK: "Rolling back",
    PlacementState.APPLIED: "Applied",
    PlacementState.CANCELLED: "Cancelled",
    PlacementState.ROLLED_BACK: "Rolled back",
}
_GLYPHS = {
    PlacementState.PLANNED: "running",
    PlacementState.APPLIED: "running",
    PlacementState.ROLLED_BACK: "running",
    PlacementState.FAILED: "blocked",
    PlacementState.CANCELLED: "blocked",
}
_TONES = {
    PlacementState.PLANNED: "good",
    PlacementState.APPLIED: "good",
    PlacementState.FAILED: "bad",
    PlacementState.PAUSED: "warn",
    PlacementState.CANCELLED: "warn",
}
_NAMED = 12


@dataclass(frozen=True, kw_only=True)
class PlacementView:
    """A placement, now or (with `now` None) at an earlier position."""

    row: PlacementRow
    requested_at: datetime
    now: datetime | None
    named: PlacementNamed | None
    progress: dict[str, Any] | None = None
    """Progress that the worker reported."""

    @property
    def name(self) -> str:
        """Return the name, such as `Placement 3 · c2`."""
        return placement_name(self.named, self.row.id)

    @property
    def short_name(self) -> str:
        """Return the name without the cluster, such as `Placement 3`."""
        return placement_number(self.named, self.row.id)

    @property
    def label(self) -> str:
        return _LABELS.get(self.row.state, str(self.row.state).capitalize())

    @property
    def glyph(self) -> str:
        return _GLYPHS.get(self.row.state, "starting")

    @property
    def tone(self) -> str:
        """Return the tone of the present state."""
        tone = _TONES.get(self.row.state, "plain")
        return "warn" if tone == "good" and self.figure("violations") else tone

    @property
    def is_computed(self) -> bool:
        """Return True while a worker computes the plan."""
        return self.row.state is PlacementState.REQUESTED

    @property
    def proposed(self) -> str | None:
        """Return the broker changes for which a worker proposed it; None if an operator requested it."""
        return None if self.row.proposal is None else proposal_text(self.row.proposal)

    @property
    def poll_interval(self) -> str | None:
        """Return how often the page polls for news; None if none will come."""
        goes_on = self.is_computed or self.row.state in RUNNING
        return "1s" if goes_on and self.now is not None else None

    @property
    def run(self) -> PlacementRunView:
        """Return the view of its run."""
        return PlacementRunView(row=self.row, progress=self.progress or {})

    def figure(self, name: str) -> Any:
        """Return a figure of the summary; None if the worker's version did not record it."""
        return (self.row.summary or {}).get(name)

    @property
    def result(self) -> str:
        """Describe the result, without a full stop."""
        if self.is_computed:
            since = f", for {span((self.now - self.requested_at).total_seconds() * 1000)}" if self.now else ""
            return f"a worker is computing a plan for {self.row.cluster}{since}"
        if self.row.reason is not None:
            return self.row.reason
        if self.row.run:
            return self.run.result
        if self.row.held_back is not None and self.row.state is PlacementState.PLANNED:
            return f"not applied automatically: {self.row.held_back}"
        broken = self.figure("violations") or {}
        kept = f"; violations: {_rules(broken)}" if broken else ""
        return f"{self._moves}{kept}"

    @property
    def _moves(self) -> str:
        moves, least = self.figure("moves"), self.figure("lower_bound")
        if not isinstance(moves, int):
            return "planned"
        if not moves:
            leaders = self.figure("leader_changes")
            other = f", {counted(leaders, 'leader change')}" if leaders else ""
            return f"no replica moves{other}"
        does = "replica move" if moves == 1 else "replica moves"
        if not isinstance(least, int):
            return f"{moves:,} {does}"
        if self.row.given is not None:
            return f"{moves:,} {does}, as submitted"
        bound = "the minimum" if moves == least else f"minimum {least:,}"
        return f"{moves:,} {does} ({bound})"

    @property
    def aims(self) -> list[tuple[str, str]]:
        """Return the options of the request, as (label, value)."""
        if self.row.given is not None:
            return given_fields(self.row.given)
        return aims_fields(self.row.aims)


def aims_fields(aims: Aims) -> list[tuple[str, str]]:
    """Return labels and values of a request's options."""
    return [
        ("Target brokers", "all" if aims.target_brokers is None else id_ranges(aims.target_brokers)),
        ("Replication factor", _factor(aims)),
        ("Excluded topics", some(aims.excluded_topics) or "none"),
        ("Brokers without leaders", id_ranges(aims.no_leaders) or "none"),
    ]


def given_fields(partitions: int) -> list[tuple[str, str]]:
    """Return the same for a submitted reassignment."""
    return [("Submitted reassignment", counted(partitions, "partition"))]


def _factor(aims: Aims) -> str:
    overall = [] if aims.replication_factor is None else [str(aims.replication_factor)]
    by_topic = [f"{topic}: {factor}" for topic, factor in sorted(aims.replication_factors.items())]
    text = some([*overall, *by_topic]) or "unchanged"
    return f"as declared: {text}" if aims.as_declared and by_topic else text


def some(names: Sequence[str]) -> str:
    """List the first names and say how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def proposal_text(proposal: Proposal) -> str:
    """Describe the broker changes of a proposal, without a full stop."""
    joined = f"{_brokers(proposal.joined)} joined" if proposal.joined else ""
    left = f"{_brokers(proposal.left)} left" if proposal.left else ""
    return " and ".join(part for part in (joined, left) if part)


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {id_ranges(ids)}"


RULES = {
    "replication-factor": "too few brokers for the replication factor",
    "racks": "replicas share a rack",
    "brokers": "replicas on excluded brokers",
    "distinct-brokers": "two replicas on one broker",
    "leaders": "leaders on brokers that may not lead",
}
"""Descriptions of violated rules, by constraint."""


def _rules(broken: dict[str, int]) -> str:
    return ", ".join(
        f"{RULES.get(rule, rule)} ({counted(count, 'partition')})" for rule, count in sorted(broken.items())
    )
