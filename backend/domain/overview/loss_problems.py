"""Problems: records that are lost, may be lost, or are dead-lettered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from backend.domain.base.words import counted
from backend.domain.overview.estate_facts import EstateFacts, OpenFact
from backend.domain.overview.problems import (
    Kind,
    Problem,
    Severity,
    WayOut,
    address,
    few_or_all,
    listed,
    oldest,
)

_LOSSES = WayOut(label="Open losses and dead letters", address="/losses")


@dataclass(frozen=True, kw_only=True)
class _Loss:
    code: str
    severity: Severity
    what: str
    advice: str
    label: str | None
    """Label of the form for one distributor; None: the page of all."""


_LOST = _Loss(
    code="records-lost",
    severity=Severity.CRITICAL,
    what="unacknowledged lost record range",
    advice="Read which offsets are gone and inform the stream's consumers, then acknowledge the loss.",
    label="Acknowledge losses",
)
_POSSIBLY_LOST = _Loss(
    code="records-possibly-lost",
    severity=Severity.WARNING,
    what="possibly lost record range",
    advice="A topic was deleted and created again: read which offsets may be gone, then acknowledge the loss.",
    label="Acknowledge losses",
)
_DEAD_LETTERS = _Loss(
    code="dead-letters",
    severity=Severity.WARNING,
    what="dead letter",
    advice="Remove the cause, such as a size limit of the target's topic, then replay the records.",
    label=None,
)


def loss_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problems of losses and dead letters, one for each distributor if these are few."""
    yield from few_or_all(facts.lost, partial(_problem, _LOST))
    yield from few_or_all(facts.possibly_lost, partial(_problem, _POSSIBLY_LOST))
    yield from few_or_all(facts.dead_letters, partial(_problem, _DEAD_LETTERS))


def _problem(loss: _Loss, found: Sequence[OpenFact]) -> Problem:
    first = found[0]
    where = listed([f"{fact.cluster} level {fact.level}" for fact in found])
    way_out = _LOSSES
    if loss.label is not None and len(found) == 1:
        form = address("/losses/-acknowledge", cluster=first.cluster, level=str(first.level))
        way_out = WayOut(label=loss.label, address=form)
    return Problem(
        code=loss.code,
        kind=Kind.DATA_LOSS,
        severity=loss.severity,
        subject=where,
        text=f"{counted(sum(fact.count for fact in found), loss.what)} at {where}.",
        advice=loss.advice,
        since=oldest(fact.since for fact in found),
        way_out=way_out,
    )
