"""Problems of drift: streams that are not as declared, and webhooks whose deliveries fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from backend.domain.base.words import counted
from backend.domain.overview.estate_facts import ApplyFact, EstateFacts, WebhookFact
from backend.domain.overview.problems import (
    Kind,
    Problem,
    Severity,
    WayOut,
    because,
    few_or_all,
    listed,
    oldest,
)

_REASONS = WayOut(label="Open failures", address="/timeline?name=StreamApplyFailed")


def drift_problems(facts: EstateFacts) -> Iterator[Problem]:
    """Yield the problems of streams, by cluster, and of webhooks."""
    yield from few_or_all(facts.not_applied, partial(_apply, "stream-not-applied"))
    yield from few_or_all(facts.drifted, partial(_apply, "stream-drifted"))
    yield from few_or_all(facts.webhooks, _failing)


def _apply(code: str, found: Sequence[ApplyFact]) -> Problem:
    first, total = found[0], sum(fact.count for fact in found)
    names = [fact.cluster for fact in found]
    one = total == 1
    what = "could not be applied" if code == "stream-not-applied" else "drifted, and could not be set back,"
    such_as = "" if one else f" ({first.stream} and others)"
    reasons = {fact.reason for fact in found}
    return Problem(
        code=code,
        kind=Kind.DRIFT,
        severity=Severity.WARNING,
        subject=first.stream if one else listed(names),
        text=f"{f'Stream {first.stream}' if one else counted(total, 'stream')}{such_as} {what} on "
        f"{listed(names)}{because(reasons.pop() if len(reasons) == 1 else None)}",
        advice="Change what the reason names, on the cluster or in the declaration; it is tried again by itself.",
        since=oldest(fact.since for fact in found),
        way_out=WayOut(label="Open stream", address=f"/tenants/{first.stream}") if one else _REASONS,
    )


def _failing(found: Sequence[WebhookFact]) -> Problem:
    names = [webhook.name for webhook in found]
    one = len(found) == 1
    total = counted(sum(webhook.failed for webhook in found), "delivery", "deliveries")
    return Problem(
        code="webhook-failing",
        kind=Kind.DRIFT,
        severity=Severity.WARNING,
        subject=listed(names),
        text=f"{total} to {'webhook' if one else 'webhooks'} {listed(names)} failed: the receiver gets no events.",
        advice="Check the receiver, then send the failed deliveries again.",
        since=oldest(webhook.since for webhook in found),
        way_out=WayOut(label=f"Open {names[0]}", address=f"/webhooks/{names[0]}")
        if one
        else WayOut(label="Open webhooks", address="/webhooks"),
    )
