"""Decision on a switch plan: the verdict in a sentence, the expected pause, and what groups re-read.

The pause is a range: it covers the plan's estimates, for the records of now and for as many as a switch allows,
and for how long the latest switches from the same cluster held producers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.base.known import total
from backend.domain.switch.switch_plan import Plan
from backend.web.switch.switch_readiness import BAD, GOOD, WARN, Readiness, finding_text
from backend.web.words.figures import counted, full, span, span_range

MOST_HOLDS = 10
"""Number of earlier switches that the expected pause is compared with."""


@dataclass(frozen=True)
class Figure:
    """A figure of the decision, with where it comes from."""

    label: str
    value: str
    source: str


@dataclass(frozen=True)
class Decision:
    """Decision of an operator. `holds_ms`: pauses of the latest switches from the same cluster."""

    readiness: Readiness
    holds_ms: Sequence[int]
    hold_limit_s: float

    @property
    def plan(self) -> Plan:
        return self.readiness.plan

    @property
    def tone(self) -> str:
        if self.plan.blockers:
            return BAD
        return WARN if self.plan.request.is_emergency else GOOD

    @property
    def glyph(self) -> str:
        return {BAD: "blocked", WARN: "degraded", GOOD: "running"}[self.tone]

    @property
    def verdict(self) -> str:
        """Return the plan in one sentence; `warnings` follow it."""
        blockers = self.plan.blockers
        if blockers:
            first = finding_text(blockers[0])
            return f"1 blocker: {first}" if len(blockers) == 1 else f"{len(blockers)} blockers: first {first}"
        if self.plan.request.is_emergency:
            return "Ready: clients move at once; the switch waits for nothing"
        return "Ready to start"

    @property
    def warnings(self) -> str:
        """Return the number of warnings in words; empty if there is none."""
        number = sum(len(gate.lines) + gate.more for gate in self.readiness.found if gate.tone == WARN)
        return counted(number, "warning") if number else ""

    @property
    def figures(self) -> list[Figure]:
        return [self._pause, self._re_read]

    @property
    def _pause(self) -> Figure:
        plan = self.plan
        estimated = span_range(plan.expected_ms, plan.expected_most_ms)
        if plan.request.is_emergency:
            return Figure("Expected pause", estimated, "until clients learn of the move")
        if not self.holds_ms:
            return Figure("Expected pause", estimated, f"estimate by phase; {self._limit}")
        shortest, longest = min(self.holds_ms), max(self.holds_ms)
        whole = span_range(min(plan.expected_ms, shortest), max(plan.expected_most_ms, longest))
        number = counted(len(self.holds_ms), "earlier run")
        source = f"estimate {estimated}; {number}: {span_range(shortest, longest)}"
        return Figure("Expected pause", whole, f"{source}; {self._limit}")

    @property
    def _limit(self) -> str:
        return f"aborted after {span(round(1000 * self.hold_limit_s))}"

    @property
    def _re_read(self) -> Figure:
        label = "Maximum re-read records"
        groups = [each for item in self.plan.items for each in item.groups]
        if not self.plan.request.is_emergency:
            left = len({each.subject for each in self.plan.warnings if each.slug == "group-not-followed"})
            if left:
                return Figure(label, "not known", f"{counted(left, 'group')} without translated offsets")
            return Figure(label, "0", "offsets are set exactly")
        if not groups:
            return Figure(label, "0", "no group has committed")
        bound = total(each.re_read_bound for each in groups)
        if bound is None:
            return Figure(label, "not known", "of some groups; see Groups")
        is_estimate = any(each.re_read_estimate for each in groups)
        number = counted(len({each.technical_group for each in groups}), "group")
        return Figure(label, full(bound), f"{'estimate for' if is_estimate else 'bound for'} {number}")
