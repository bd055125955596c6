"""Problems of Treeline's own parts: nodes of the zone router, and projections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backend.domain.base.words import counted
from backend.domain.overview.estate_facts import EstateFacts, NodeFact
from backend.domain.overview.problems import (
    Kind,
    Problem,
    Severity,
    WayOut,
    are,
    few_or_all,
    listed,
    oldest,
)


def service_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problems of nodes and projections."""
    yield from few_or_all(facts.nodes, _unreachable)
    if facts.projections:
        names, lacking = sorted(facts.projections), counted(max(facts.projections.values()), "event")
        what = (
            f"The projection of {names[0]} lacks {lacking}"
            if len(names) == 1
            else f"The projections of {listed(names)} lack up to {lacking}"
        )
        yield Problem(
            code="projection-behind",
            kind=Kind.AVAILABILITY,
            severity=Severity.CRITICAL,
            subject=listed(names),
            text=f"{what}: pages and answers show an older state.",
            advice="Read the API's log for the reason; if it does not catch up, rebuild the projections.",
            way_out=WayOut(label="Rebuild projections", address="/timeline/-rebuild"),
        )


def _unreachable(found: Sequence[NodeFact]) -> Problem:
    names = [node.node for node in found]
    return Problem(
        code="zone-node-unreachable",
        kind=Kind.AVAILABILITY,
        severity=Severity.WARNING,
        subject=listed(names),
        text=f"{'Node' if len(names) == 1 else 'Nodes'} {listed(names)} of the zone router {are(names)} "
        "unreachable: the clients of its zone reach brokers in other zones.",
        advice="Start the node; if it will not return, forget it, so that the committed epoch does not wait.",
        since=oldest(node.since for node in found),
        way_out=WayOut(label="Open zones", address="/zones"),
    )
