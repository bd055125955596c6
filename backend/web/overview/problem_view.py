"""Problems as the Overview page lists them: the first ones, then how many more there are of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.access.access import Action, Caller, may
from backend.domain.overview.problems import Health, Kind, Problem, Severity

SHOWN = 8
"""Problems that are listed at first."""
_GLYPHS = {Severity.CRITICAL: "blocked", Severity.WARNING: "degraded", Severity.INFORMATION: "starting"}
_KINDS = {
    Kind.DATA_LOSS: "data loss",
    Kind.AVAILABILITY: "availability",
    Kind.LATENESS: "lateness",
    Kind.DRIFT: "drift",
}
_LISTS = {
    "/losses": "Open losses and dead letters",
    "/tree": "Open tree",
    "/timeline": "Open timeline",
}
"""Pages that viewers see in place of forms that they may not use."""


@dataclass(frozen=True)
class ProblemView:
    """A problem for one viewer: the link leads to a page that this viewer may open."""

    problem: Problem
    glyph: str
    label: str
    address: str


@dataclass(frozen=True)
class HealthView:
    """The verdict, the problems that are listed, and the information."""

    health: Health
    tone: str
    """`fine`, `warning`, `critical`; `plain`: not everything is known yet."""
    glyph: str
    problems: Sequence[ProblemView]
    notes: Sequence[ProblemView]
    total: int
    rest: str
    """Number of problems that are not listed, by kind; empty: all are."""

    @property
    def first(self) -> ProblemView | None:
        """Return the problem that the verdict names."""
        return self.problems[0] if self.problems else None


def health_view(health: Health, viewer: Caller, *, is_empty: bool, shows_all: bool) -> HealthView:
    """Return the view of a verdict; `is_empty`: there are no clusters or streams that it could be about."""
    shown = [_view(each, viewer) for each in health.problems]
    problems = [each for each in shown if each.problem.kind is not Kind.INFORMATION]
    first = problems if shows_all else problems[:SHOWN]
    rest = Counter(each.problem.kind for each in problems[len(first) :])
    # While some distributors do not know yet whether they are in time, nothing is said in green.
    is_open = health.counts.get("distributors_in_time") != health.counts.get("distributors")
    tone, glyph = ("fine", "running") if health.is_fine else (str(health.severity), _GLYPHS[health.severity])
    if health.is_fine and (is_empty or is_open):
        tone, glyph = "plain", "unobserved" if is_empty else "starting"
    return HealthView(
        health=health,
        tone=tone,
        glyph=glyph,
        problems=first,
        notes=[each for each in shown if each.problem.kind is Kind.INFORMATION],
        total=len(problems),
        rest=", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in rest.items()),
    )


def _view(problem: Problem, viewer: Caller) -> ProblemView:
    label, address = problem.way_out.label, problem.way_out.address
    above, is_form, _ = address.partition("/-")
    if is_form and above in _LISTS and not may(viewer, Action.CHANGE_ESTATE):
        label, address = _LISTS[above], above
    return ProblemView(problem, _GLYPHS[problem.severity], label, address)
