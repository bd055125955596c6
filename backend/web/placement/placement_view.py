"""What pages say of a placement: how far it is, what was asked for, what it comes to in a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState
from backend.queries.placement.placements import PlacementRow
from backend.web.placement.placement_run_view import PlacementRunView
from backend.web.words.figures import clock, counted, day, id_ranges, span

PLACEMENTS = ("Placements", "/placements")
"""The page that lists them, as a trail names it."""
_LABELS = {
    PlacementState.REQUESTED: "Being computed",
    PlacementState.PLANNED: "Planned",
    PlacementState.FAILED: "No plan",
    PlacementState.APPLYING: "Replicas are being moved",
    PlacementState.PAUSED: "Paused",
    PlacementState.CANCELLING: "Being cancelled",
    PlacementState.ROLLING_BACK: "Replicas go back",
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
    """A placement, now or (`now` None) as it was."""

    row: PlacementRow
    asked_at: datetime
    now: datetime | None
    told: dict[str, Any] | None = None
    """How far a worker is that moves its replicas."""

    @property
    def label(self) -> str:
        return _LABELS.get(self.row.state, str(self.row.state).capitalize())

    @property
    def glyph(self) -> str:
        return _GLYPHS.get(self.row.state, "starting")

    @property
    def tone(self) -> str:
        """How its present state is marked."""
        tone = _TONES.get(self.row.state, "plain")
        return "warn" if tone == "good" and self.figure("violations") else tone

    @property
    def is_computed(self) -> bool:
        """Whether a worker is still to say what it comes to."""
        return self.row.state is PlacementState.REQUESTED

    @property
    def asked_text(self) -> str:
        return f"{day(self.asked_at)}, {clock(self.asked_at)} UTC"

    @property
    def proposed(self) -> str | None:
        """What happened that a worker has asked for it; None: it has not."""
        return None if self.row.proposal is None else proposal_said(self.row.proposal)

    @property
    def asks_every(self) -> str | None:
        """How often the page asks for news of it; None: there will be none."""
        goes_on = self.is_computed or self.row.state in RUNNING
        return "1s" if goes_on and self.now is not None else None

    @property
    def run(self) -> PlacementRunView:
        """How its replicas are moved, and what may be said to that."""
        return PlacementRunView(row=self.row, told=self.told or {})

    def figure(self, name: str) -> Any:
        """One of its summary, as a worker of whatever version has recorded it; None if it has none."""
        return (self.row.summary or {}).get(name)

    @property
    def result(self) -> str:
        """What it came to, in a sentence without its full stop."""
        if self.is_computed:
            since = f", for {span((self.now - self.asked_at).total_seconds() * 1000)}" if self.now else ""
            return f"a worker reads {self.row.cluster} and computes{since}"
        if self.row.reason is not None:
            return self.row.reason
        if self.row.run:
            return self.run.result
        if self.row.held_back is not None and self.row.state is PlacementState.PLANNED:
            return f"it is not applied by itself: {self.row.held_back}"
        broken = self.figure("violations") or {}
        kept = f"; not all of it can be had: {_rules(broken)}" if broken else ""
        return f"{self._moves}{kept}"

    @property
    def _moves(self) -> str:
        moves, least = self.figure("moves"), self.figure("lower_bound")
        if not isinstance(moves, int):
            return "it is planned"
        if not moves:
            leaders = self.figure("leader_changes")
            other = f", {counted(leaders, 'partition')} led by another broker" if leaders else ""
            return f"no replica moves{other}"
        does = "replica moves" if moves == 1 else "replicas move"
        if not isinstance(least, int):
            return f"{moves:,} {does}"
        if self.row.given is not None:
            return f"{moves:,} {does}, as handed in"
        bound = "fewer are impossible" if moves == least else f"at least {least:,} must"
        return f"{moves:,} {does}; {bound}"

    @property
    def aims(self) -> list[tuple[str, str]]:
        """What was asked for."""
        if self.row.given is not None:
            return given_said(self.row.given)
        return aims_said(self.row.aims)


def aims_said(aims: Aims) -> list[tuple[str, str]]:
    """Name and value of each wish."""
    return [
        ("Brokers that hold replicas", "all" if aims.target_brokers is None else id_ranges(aims.target_brokers)),
        ("Replication factor", _factor(aims)),
        ("Topics that stay as they are", some(aims.excluded_topics) or "none"),
        ("Brokers that lead nothing", id_ranges(aims.no_leaders) or "none"),
    ]


def given_said(partitions: int) -> list[tuple[str, str]]:
    """The same of a reassignment that was handed in."""
    return [("Reassignment that was handed in", counted(partitions, "partition"))]


def _factor(aims: Aims) -> str:
    said = [] if aims.replication_factor is None else [str(aims.replication_factor)]
    by_topic = [f"{factor} of {topic}" for topic, factor in sorted(aims.replication_factors.items())]
    told = some([*said, *by_topic]) or "as it is"
    return f"as declared: {told}" if aims.as_declared and by_topic else told


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def proposal_said(proposal: Proposal) -> str:
    """Why a worker asked, in a sentence without its full stop."""
    joined = f"{_brokers(proposal.joined)} joined" if proposal.joined else ""
    left = f"{_brokers(proposal.left)} left" if proposal.left else ""
    return " and ".join(part for part in (joined, left) if part)


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {id_ranges(ids)}"


RULES = {
    "replication-factor": "there are too few brokers for the replicas",
    "racks": "replicas share a rack",
    "brokers": "replicas stay on brokers that are to have none",
    "distinct-brokers": "a broker is named twice",
    "leaders": "brokers lead that are to lead nothing",
}
"""What a plan does not keep, by constraint."""


def _rules(broken: dict[str, int]) -> str:
    return ", ".join(
        f"{RULES.get(rule, rule)} ({counted(count, 'partition')})" for rule, count in sorted(broken.items())
    )
