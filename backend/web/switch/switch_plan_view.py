"""View of a switch plan: clients that move, lags, and the expected hold time by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from backend.domain.base.known import total
from backend.domain.switch.cluster_switch import ALL_LEAVES, Phase
from backend.domain.switch.switch_plan import GroupItem, Item, Plan
from backend.web.switch.switch_readiness import finding_text
from backend.web.switch.switch_words import LABELS, place_of, scope
from backend.web.words.figures import counted, span, span_range

_SHOWN = 100


@dataclass(frozen=True)
class StreamLag:
    """Number of a stream's records that the target lacks; None: unknown."""

    name: str
    partitions: int
    lag: int | None
    late: int | None


@dataclass(frozen=True)
class GroupBound:
    """Figures of a group over all its partitions."""

    environment: str
    group: str
    partitions: int
    lag: int | None
    re_read_bound: int | None
    re_read_estimates: tuple[str, ...]
    """Reasons why more than `re_read_bound` may be re-read; none: the bound holds."""
    members_on_source: int
    members_on_target: int


@dataclass(frozen=True)
class Part:
    """A phase of the expected hold; `left` and `width` in percent of the whole."""

    label: str
    took: str
    because: str
    left: float
    width: float


@dataclass(frozen=True)
class PlanView:
    """A plan, formatted for its page."""

    plan: Plan

    @property
    def is_emergency(self) -> bool:
        return self.plan.request.is_emergency

    @property
    def is_blocked(self) -> bool:
        return bool(self.plan.blockers)

    @property
    def scope(self) -> str:
        return scope(self.plan.moves) if self.plan.moves else "no clients"

    @property
    def duration(self) -> str:
        return span_range(self.plan.expected_ms, self.plan.expected_most_ms)

    @property
    def missing(self) -> str:
        """Return in a sentence which records may be missing on the target of an emergency switch."""
        switch_request, late = self.plan.request, self.plan.late_records
        seen = (
            f"as reported by {switch_request.source} and {switch_request.target} now"
            if self.plan.late_from == "clusters"
            else "as last observed, which may be a few seconds ago"
        )
        acknowledged = f"that {switch_request.source} has acknowledged"
        if late is None:
            return f"It is unknown how many records {acknowledged} are missing on {switch_request.target}."
        if late == 0:
            return f"No record {acknowledged} is known to be missing on {switch_request.target}, {seen}."
        later = f"They arrive late, without duplicates, once {switch_request.source} is back."
        return (
            f"{counted(late, 'record')} {acknowledged} may be missing on {switch_request.target}, {seen}. {later}"
        )

    @cached_property
    def places(self) -> list[tuple[str, int]]:
        """Return (environment, number of its known clients) of everything that moves."""
        clients = Counter(client.place for client in self.plan.clients)
        return [(place_of(moving), clients[moving.place]) for moving in self.plan.moves]

    @property
    def client_names(self) -> list[str]:
        """Return the ids of the known clients that move."""
        return sorted(client.client_id for client in self.plan.clients)

    @cached_property
    def streams(self) -> list[StreamLag]:
        """Return the streams, unknown lags first, then the largest."""
        by_name: dict[str, list[Item]] = {}
        for item in self.plan.items:
            by_name.setdefault(item.stream_name, []).append(item)
        rows = [
            StreamLag(
                name,
                len(items),
                total(item.lag_records for item in items),
                total(item.late_records for item in items),
            )
            for name, items in by_name.items()
        ]
        return sorted(rows, key=lambda row: (row.lag is not None, -(row.lag or 0), row.name))

    @cached_property
    def groups(self) -> list[GroupBound]:
        """Return the groups, unknown bounds first, then the largest."""
        by_group: dict[tuple[str, str], list[GroupItem]] = {}
        for item in self.plan.items:
            environment = f"{item.tenant}/{item.instance}/{item.environment}"
            for each in item.groups:
                by_group.setdefault((environment, each.group), []).append(each)
        rows = [
            GroupBound(
                environment,
                group,
                len(items),
                total(item.lag_records for item in items),
                total(item.re_read_bound for item in items),
                tuple(sorted({item.re_read_estimate for item in items if item.re_read_estimate})),
                max(item.members_on_source for item in items),
                max(item.members_on_target for item in items),
            )
            for (environment, group), items in by_group.items()
        ]
        return sorted(
            rows, key=lambda row: (row.re_read_bound is not None, -(row.re_read_bound or 0), row.environment)
        )

    @property
    def re_read_estimates(self) -> list[str]:
        """Return the reasons why some of the bounds are estimates, each once."""
        return sorted({reason for each in self.groups for reason in each.re_read_estimates})

    @property
    def shown(self) -> int:
        """Return the limit of rows per table."""
        return _SHOWN

    @cached_property
    def parts(self) -> list[Part]:
        """Return the phases of the expected hold."""
        whole, left, parts = max(1, self.plan.expected_ms), 0.0, []
        for each in self.plan.expected:
            width = round(100 * each.ms / whole, 2)
            parts.append(Part(LABELS[Phase(each.phase)], span(each.ms), each.because, round(left, 2), width))
            left += width
        return parts

    @property
    def drain(self) -> str:
        """Return the clusters that must have all records before clients move."""
        if self.is_emergency:
            return "nothing"
        return "all online leaves" if self.plan.request.drain == ALL_LEAVES else self.plan.request.target

    @cached_property
    def decides(self) -> list[str]:
        """Return what the operator decides on, one line each, to be compared with a later plan."""
        plan = self.plan
        return [
            f"generation {plan.generation}",
            *(f"moves {place_of(moving)}" for moving in plan.moves),
            *(f"{each.cluster} level {each.level} copies to {each.target}" for each in plan.retargets),
            *(f"{each.cluster} level {each.level} keeps its target" for each in plan.kept),
            *(f"blocker: {finding_text(each)}" for each in plan.blockers),
        ]


def differences(seen: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (lines removed, lines added) between two plans."""
    before, after = set(seen), set(now)
    return [line for line in seen if line not in after], [line for line in now if line not in before]
