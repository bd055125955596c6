"""Readiness of a switch plan: its checks, those that failed or warn first, each finding with its way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from backend.domain.switch.switch_checks import TENANT_MOVING, Finding
from backend.domain.switch.switch_plan import Plan
from backend.web.switch.switch_remedies import Remedies, Remedy
from backend.web.switch.switch_words import scope
from backend.web.words.figures import counted

GOOD, WARN, BAD = "good", "warn", "bad"
_GLYPHS = {GOOD: "running", WARN: "degraded", BAD: "blocked"}
GATES: Mapping[str, frozenset[str]] = {
    "Environments found": frozenset({"same-cluster", "nothing-to-move"}),
    "No other switch in progress": frozenset({TENANT_MOVING}),
    "Target is reachable": frozenset({"target-offline", "target-silent"}),
    "Target is in the tree": frozenset({"target-not-in-tree"}),
    "Source can be drained": frozenset({"source-offline", "source-silent", "source-not-in-tree"}),
    "Streams exist on the target": frozenset({"stream-not-there", "fewer-partitions", "stream-orphaned"}),
    "Credentials and ACLs applied": frozenset({"access-not-there"}),
    "Distributors on the route run": frozenset(
        {"edge-paused", "edge-blocked", "edge-not-running", "edge-of-other-origin"}
    ),
    "Groups inactive on the target": frozenset({"group-active-on-target"}),
    "Clients report to discovery": frozenset({"client-silent", "client-never-reported"}),
    "Offsets are translated": frozenset({"group-not-followed", "margin-mode"}),
}
"""Gate -> slugs of its findings (`switch_checks.py`). Findings without a gate are listed below the gates."""
FAILED: Mapping[str, str] = {
    "Environments found": "Nothing to move",
    "No other switch in progress": "Another switch is in progress",
    "Target is reachable": "Target is not reachable",
    "Target is in the tree": "Target is not in the tree",
    "Source can be drained": "Source cannot be drained",
    "Streams exist on the target": "Streams are not complete on the target",
    "Credentials and ACLs applied": "Credentials and ACLs not applied",
    "Distributors on the route run": "Not all distributors are running",
    "Groups inactive on the target": "Groups are active on the target",
    "Clients report to discovery": "Not all clients report to discovery",
    "Offsets are translated": "Not all offsets are translated exactly",
}
"""Gate -> its heading if it has findings: what is wrong, not what should be."""
BELOW: Mapping[str, str] = {
    "source-is-primary": "Primary cluster {}",
    "order-on-target-only": "Order per key on {}",
}
"""Slug of a finding without a gate -> its heading, with the place of its subject."""
_FOUND_SHOWN = 6


@dataclass(frozen=True)
class Line:
    """A finding of a check, or what was observed."""

    text: str
    remedy: Remedy | None = None


@dataclass(frozen=True)
class Gate:
    """A readiness check of a switch. `lines`: why it fails, or what was observed."""

    name: str
    tone: str
    lines: tuple[Line, ...]
    more: int = 0
    """Number of findings that are not listed."""

    @property
    def heading(self) -> str:
        return self.name if self.tone == GOOD else FAILED.get(self.name, self.name)

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.tone]

    @property
    def spoken(self) -> str:
        """Return the result as text for screen readers."""
        return {GOOD: "ready", WARN: "warning", BAD: "not ready"}[self.tone]


@dataclass(frozen=True)
class Readiness:
    """All checks of a plan; `given` are the fields of its form."""

    plan: Plan
    given: Mapping[str, str]

    @cached_property
    def gates(self) -> list[Gate]:
        return [self._gate(name, slugs) for name, slugs in GATES.items()]

    @cached_property
    def found(self) -> list[Gate]:
        """Return the checks that failed, then those that warn."""
        listed = [*self.gates, *self._others]
        return [each for tone in (BAD, WARN) for each in listed if each.tone == tone]

    @cached_property
    def passed(self) -> list[Gate]:
        return [gate for gate in self.gates if gate.tone == GOOD]

    def line(self, found: Finding) -> Line:
        """Return a finding as a line, with its way out."""
        return Line(finding_text(found), Remedies(self.plan, self.given).of(found))

    def _gate(self, name: str, slugs: frozenset[str]) -> Gate:
        against = [each for each in self.plan.blockers if each.slug in slugs]
        found = [*against, *(each for each in self.plan.warnings if each.slug in slugs)]
        if not found:
            quiet = name == "Clients report to discovery" and not self.plan.clients
            return Gate(name, WARN if quiet else GOOD, (Line(self._seen(name)),))
        shown = tuple(self.line(each) for each in found[:_FOUND_SHOWN])
        return Gate(name, BAD if against else WARN, shown, len(found) - len(shown))

    def _seen(self, name: str) -> str:
        """Return what was observed at a gate without findings."""
        plan, target = self.plan, self.plan.request.target
        streams, clients = len({item.stream_name for item in plan.items}), len(plan.clients)
        groups = len({each.technical_group for item in plan.items for each in item.groups})
        match name:
            case "Environments found":
                return f"On {plan.request.source}: {scope(plan.moves) if plan.moves else 'no clients'}."
            case "No other switch in progress":
                return "No other switch is moving these tenants."
            case "Target is reachable":
                return f"{target} is online."
            case "Target is in the tree":
                return f"Records are copied to {target}."
            case "Source can be drained":
                return f"{plan.request.source} is online."
            case "Streams exist on the target":
                return f"{counted(streams, 'stream')} with all partitions." if streams else "There are no streams."
            case "Credentials and ACLs applied":
                return f"Every application has its credentials and ACLs on {target}."
            case "Distributors on the route run":
                return f"None is paused or blocked between {plan.request.source} and {target}."
            case "Groups inactive on the target":
                return f"Offsets can be set on {target}."
            case "Clients report to discovery":
                if not clients:
                    return "No reports in the last day; clients that do not use discovery stay where they are."
                return f"{counted(clients, 'client')}, none of them silent."
            case _:
                return f"{counted(groups, 'group')} with commits." if groups else "No group has committed there."

    @property
    def _others(self) -> list[Gate]:
        """Return the findings that belong to no gate, in the same shape."""
        at_gates = frozenset().union(*GATES.values())
        found = [(BAD, each) for each in self.plan.blockers] + [(WARN, each) for each in self.plan.warnings]
        remedies = Remedies(self.plan, self.given)
        return [
            Gate(
                BELOW.get(each.slug, "{}").format(each.subject),
                tone,
                (Line(each.detail[0].upper() + each.detail[1:], remedies.of(each)),),
            )
            for tone, each in found
            if each.slug not in at_gates
        ]


def finding_text(found: Finding) -> str:
    """Return a finding with its subject."""
    return f"{found.subject}: {found.detail}"
