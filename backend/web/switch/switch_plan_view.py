"""The plan of a switch as its page shows it: gates in words, what moves, what waits, and for how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from backend.domain.base.known import total
from backend.domain.switch.cluster_switch import ALL_LEAVES, Phase
from backend.domain.switch.switch_checks import TENANT_MOVING, Finding
from backend.domain.switch.switch_plan import GroupItem, Item, Plan
from backend.web.switch.switch_words import LABELS, place_of, scope
from backend.web.words.figures import counted, span

GOOD, WARN, BAD = "good", "warn", "bad"
_GLYPHS = {GOOD: "running", WARN: "degraded", BAD: "blocked"}
GATES: Mapping[str, frozenset[str]] = {
    "Somebody moves": frozenset({"same-cluster", "nothing-to-move"}),
    "Nothing else is moving them": frozenset({TENANT_MOVING}),
    "The target answers": frozenset({"target-offline", "target-silent"}),
    "The target is in the tree": frozenset({"target-not-in-tree"}),
    "The source can be drained": frozenset({"source-offline", "source-silent", "source-not-in-tree"}),
    "Every stream is on the target": frozenset({"stream-not-there", "fewer-partitions", "stream-orphaned"}),
    "Access is applied there": frozenset({"access-not-there"}),
    "Distributors on the way run": frozenset(
        {"edge-paused", "edge-blocked", "edge-not-running", "edge-of-other-origin"}
    ),
    "No group is at work on the target": frozenset({"group-active-on-target"}),
    "Clients are heard of": frozenset({"client-silent", "client-never-reported"}),
    "Groups are carried over": frozenset({"group-not-followed", "margin-mode"}),
}
"""Gate -> what may be found at it (`switch_checks.py`). What belongs to none is told below them."""
_FOUND_SHOWN = 6
_SHOWN = 100


@dataclass(frozen=True)
class Gate:
    """One row of what has to be so before a switch begins. `lines`: why it is not, or what was seen."""

    name: str
    tone: str
    lines: tuple[str, ...]
    more: int = 0
    """Findings that are not listed."""

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.tone]

    @property
    def spoken(self) -> str:
        """The tone for those who do not see it."""
        return {GOOD: "ready", WARN: "look at this", BAD: "not ready"}[self.tone]


@dataclass(frozen=True)
class StreamLag:
    """A stream's records that the target lacks; None: nobody could tell."""

    name: str
    partitions: int
    lag: int | None
    late: int | None


@dataclass(frozen=True)
class GroupBound:
    """A group over all its partitions."""

    environment: str
    group: str
    partitions: int
    lag: int | None
    re_read_bound: int | None
    re_read_estimates: tuple[str, ...]
    """Why more may come again than that; none: the bound holds."""
    members_on_source: int
    members_on_target: int


@dataclass(frozen=True)
class Part:
    """A phase of the expected wait; `left` and `width` in hundredths of all of it."""

    label: str
    took: str
    because: str
    left: float
    width: float


@dataclass(frozen=True)
class PlanView:
    """A plan, ready to be shown."""

    plan: Plan

    @property
    def is_emergency(self) -> bool:
        return self.plan.wish.is_emergency

    @property
    def is_blocked(self) -> bool:
        return bool(self.plan.blockers)

    @property
    def scope(self) -> str:
        return scope(self.plan.moves) if self.plan.moves else "nobody"

    @property
    def duration(self) -> str:
        return span(self.plan.expected_ms)

    @property
    def verdict(self) -> str:
        """The plan in one sentence."""
        if self.is_blocked:
            number = len(self.plan.blockers)
            return f"{counted(number, 'thing')} {'stands' if number == 1 else 'stand'} against it."
        if self.is_emergency:
            return "Clients are moved at once; nothing is waited for."
        return f"Producers would wait for about {self.duration}."

    @property
    def missing(self) -> str:
        """Of an emergency: what may be missing on the target, in a sentence."""
        wish, late = self.plan.wish, self.plan.late_records
        seen = (
            f"as {wish.source} and {wish.target} say now"
            if self.plan.late_from == "clusters"
            else "as last observed, which may be some seconds ago"
        )
        acknowledged = f"that {wish.source} has acknowledged"
        if late is None:
            return f"Nobody can tell how many records {acknowledged} are missing on {wish.target}."
        if late == 0:
            return f"No record {acknowledged} is known to be missing on {wish.target}, {seen}."
        later = f"They come once {wish.source} is back, late and without doubling."
        return f"{counted(late, 'record')} {acknowledged} may be missing on {wish.target}, {seen}. {later}"

    @cached_property
    def gates(self) -> list[Gate]:
        return [self._gate(name, slugs) for name, slugs in GATES.items()]

    def _gate(self, name: str, slugs: frozenset[str]) -> Gate:
        against = [each for each in self.plan.blockers if each.slug in slugs]
        found = [*against, *(each for each in self.plan.warnings if each.slug in slugs)]
        if not found:
            lines = self._seen(name)
            quiet = name == "Clients are heard of" and not self.plan.clients
            return Gate(name, WARN if quiet else GOOD, (lines,))
        shown = tuple(_line(each) for each in found[:_FOUND_SHOWN])
        return Gate(name, BAD if against else WARN, shown, len(found) - len(shown))

    def _seen(self, name: str) -> str:
        """What was found at a gate that nothing stands against."""
        plan, target = self.plan, self.plan.wish.target
        streams, clients = len({_stream(item) for item in plan.items}), len(plan.clients)
        groups = len({each.technical_group for item in plan.items for each in item.groups})
        match name:
            case "Somebody moves":
                return f"On {plan.wish.source}: {self.scope}."
            case "Nothing else is moving them":
                return "No other switch has these tenants."
            case "The target answers":
                return f"{target} is online."
            case "The target is in the tree":
                return f"Records are copied to {target}."
            case "The source can be drained":
                return f"{plan.wish.source} is online."
            case "Every stream is on the target":
                return f"{counted(streams, 'stream')} with all partitions." if streams else "They have no streams."
            case "Access is applied there":
                return f"Every application has its account and rights on {target}."
            case "Distributors on the way run":
                return f"None is paused or blocked between {plan.wish.source} and {target}."
            case "No group is at work on the target":
                return f"Offsets can be set on {target}."
            case "Clients are heard of":
                if not clients:
                    return "None in the last day: whoever does not follow discovery stays where it is."
                return f"{counted(clients, 'client')}, none of them silent."
            case _:
                return f"{counted(groups, 'group')} with commits." if groups else "None has committed there."

    @property
    def others(self) -> list[Gate]:
        """What else there is to know, in the same shape."""
        at_gates = frozenset().union(*GATES.values())
        found = [(BAD, each) for each in self.plan.blockers] + [(WARN, each) for each in self.plan.warnings]
        return [Gate(each.subject, tone, (each.detail,)) for tone, each in found if each.slug not in at_gates]

    @cached_property
    def places(self) -> list[tuple[str, int]]:
        """(environment, clients of it that discovery knows), of whom moves."""
        clients = Counter(client.place for client in self.plan.clients)
        return [(place_of(moving), clients[moving.place]) for moving in self.plan.moves]

    @property
    def client_names(self) -> list[str]:
        """That discovery knows, of whom moves."""
        return sorted(client.client_id for client in self.plan.clients)

    @cached_property
    def streams(self) -> list[StreamLag]:
        """The one that lacks most first; those of which nobody can tell before all."""
        by_name: dict[str, list[Item]] = {}
        for item in self.plan.items:
            by_name.setdefault(_stream(item), []).append(item)
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
        """The one that reads most again first; those of which nobody can tell before all."""
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
        """Why some of these figures are estimates, each reason once."""
        return sorted({reason for each in self.groups for reason in each.re_read_estimates})

    @property
    def shown(self) -> int:
        """Rows that each table has at most."""
        return _SHOWN

    @cached_property
    def parts(self) -> list[Part]:
        """Of the expected wait."""
        whole, left, parts = max(1, self.plan.expected_ms), 0.0, []
        for each in self.plan.expected:
            width = round(100 * each.ms / whole, 2)
            parts.append(Part(LABELS[Phase(each.phase)], span(each.ms), each.because, round(left, 2), width))
            left += width
        return parts

    @property
    def drain(self) -> str:
        """What is waited for before anybody moves."""
        if self.is_emergency:
            return "nothing"
        return "every leaf that is online" if self.plan.wish.drain == ALL_LEAVES else self.plan.wish.target

    @cached_property
    def decides(self) -> list[str]:
        """What the operator decides on, a line each: told apart from that of another look."""
        plan = self.plan
        return [
            f"generation {plan.generation}",
            *(f"moves {place_of(moving)}" for moving in plan.moves),
            *(f"{each.cluster} level {each.level} copies to {each.target}" for each in plan.retargets),
            *(f"{each.cluster} level {each.level} keeps its target" for each in plan.kept),
            *(f"stands against it: {_line(each)}" for each in plan.blockers),
        ]


def differences(seen: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    """(what is no longer so, what is new), of the lines of two plans."""
    before, after = set(seen), set(now)
    return [line for line in seen if line not in after], [line for line in now if line not in before]


def _line(found: Finding) -> str:
    return f"{found.subject}: {found.detail}"


def _stream(item: Item) -> str:
    return f"{item.tenant}/{item.instance}/{item.environment}/{item.stream}"
