"""View of a cluster's replication: state, alerts, partitions and brokers.

It is made from the stored document of the last observation, which another version's worker may have written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from markupsafe import Markup

from backend.domain.names.names import StreamName
from backend.eventlog.recorded import StoredEvent
from backend.queries.base.observed import STALE
from backend.queries.clusters.clusters import ClusterRow
from backend.queries.replication.replication import ReplicationRow
from backend.web.frame.past_observation import PastObservation
from backend.web.words.figures import clock, counted, day, full, id_ranges, span
from backend.web.words.instants import when

BROKERS_SHOWN = 200
_EXAMPLES, _FEW = 8, 3
_OBSERVED, _DATA_OBSERVED = Markup("observed {}"), Markup("The data below was observed {}")
_TONES = {"critical": "bad", "warning": "warn", "advice": "plain"}
_BY_PLACEMENT = frozenset({"broker-away", "under-replicated", "factor-not-as-declared"})
"""Alerts that a placement resolves, so that its form is linked."""
_ALERTS = {
    "partition-without-leader": ("partition", "without a leader"),
    "under-min-isr": ("partition", "below min.insync.replicas"),
    "broker-away": ("broker", "offline"),
    "under-replicated": ("partition", "under-replicated"),
    "down-to-min-isr": ("partition", "reduced to min.insync.replicas"),
    "min-isr-not-below-factor": ("topic", "that do not tolerate an offline broker"),
    "unclean-election": ("topic", "with unclean leader election"),
    "one-copy-acknowledged": ("topic", "acknowledged with one copy"),
    "factor-not-as-declared": ("topic", "with a replication factor other than declared"),
    "not-preferred-leader": ("partition", "not led by the preferred replica"),
    "leaders-uneven": ("partition", "of imbalance between leaders"),
}
_CONDITIONS = (
    ("without_leader", "Without a leader", "clients can neither read nor write"),
    ("under_min_isr", "Below min.insync.replicas", "producers with acks=all are refused"),
    ("under_replicated", "Under-replicated", "the ISR is smaller than the replica set"),
    ("at_min_isr", "At min.insync.replicas", "with one replica less in sync, producers with acks=all are refused"),
    ("not_preferred", "Not led by the preferred replica", "another replica leads, possibly since a failover"),
    ("moving", "Reassigning", "by a placement or another tool"),
    ("unreplicated", "Replication factor 1", "unavailable while their broker is offline"),
)


@dataclass(frozen=True)
class ExampleShown:
    """An example of an alert or condition. `topic` is the technical name of its topic, if it has one."""

    name: str
    topic: str | None


@dataclass(frozen=True)
class ExamplesShown:
    """The first examples, and the number of others."""

    named: Sequence[ExampleShown]
    more: int


@dataclass(frozen=True)
class AlertShown:
    """An alert as shown."""

    name: str
    title: str
    severity: str
    tone: str
    what_to_do: str
    examples: ExamplesShown
    by_placement: bool


@dataclass(frozen=True)
class ConditionShown:
    """A condition with the number of its partitions."""

    name: str
    title: str
    because: str
    count: int
    examples: ExamplesShown


@dataclass(frozen=True)
class BrokerShown:
    """Load of a broker; shares are percentages of the highest load of any broker."""

    id: int
    rack: str
    is_here: bool
    replicas: int
    leaders: int
    preferred: int
    lag_time: str
    replicas_share: float
    leaders_share: float
    preferred_share: float


@dataclass(frozen=True, kw_only=True)
class ReplicationView:
    """A cluster with its last observation."""

    row: ClusterRow
    found: ReplicationRow
    streams: Mapping[str, StreamName] = field(default_factory=dict)
    """Streams by their topics' technical names, for the topics that the page names."""
    then: PastObservation | None = None
    """Observation to show for an earlier position."""

    @property
    def health(self) -> Mapping[str, Any]:
        return self.found.health or {}

    @property
    def reason(self) -> str | None:
        """Return the reason for which there is no newer observation."""
        return self.row.reason or self.found.reason

    @property
    def is_stale(self) -> bool:
        seconds = self.found.age_seconds
        if seconds is not None and self.then is not None and self.then.snapshot is not None:
            # The age counts from the observation, not from the event.
            seconds -= self.then.snapshot.seconds_before
        return seconds is not None and seconds > STALE.total_seconds()

    @property
    def age_text(self) -> str:
        """Return when it was observed, as text or HTML."""
        seconds, moment = self.found.age_seconds, self.found.observed_at
        if self.then is not None:
            return "no observation kept" if seconds is None else f"observed {span(1000 * seconds)} before"
        return "not observed yet" if moment is None else _OBSERVED.format(when(moment, zone=True))

    @property
    def tone(self) -> str:
        """Return the tone of the gravest alert."""
        if not self.health or self.reason is not None or self.is_stale:
            return "plain" if self.reason is None else "bad"
        tones = [each.tone for each in self.alerts]
        return next((tone for tone in ("bad", "warn") if tone in tones), "good")

    @property
    def glyph(self) -> str:
        return {"good": "running", "warn": "degraded", "bad": "blocked"}.get(self.tone, "unobserved")

    @property
    def state(self) -> str:
        """Return the state in a few words."""
        if not self.health:
            return "Not observed" if self.reason else "Not observed yet" if self.then is None else "Not known"
        if self.reason is not None or self.is_stale:
            return "Not observable now" if self.then is None else "Not observable then"
        critical, warnings = (sum(each.tone == tone for each in self.alerts) for tone in ("bad", "warn"))
        if critical:
            return "Clients are refused"
        if warnings:
            return "Degraded"
        return "All replicas are in sync"

    @property
    def sentence(self) -> str:
        """Return the state in a sentence, as text or HTML."""
        if not self.health:
            usual = "A worker observes each online cluster about every ten seconds"
            return self.reason or (usual if self.then is None else self.then.sentence)
        seen = f"The data below was observed {span(1000 * (self.found.age_seconds or 0))} before"
        if self.then is None:
            seen = _DATA_OBSERVED.format(when(self.found.observed_at, zone=True))
        if self.reason is not None:
            return Markup("{}. {}").format(self.reason, seen)
        if self.is_stale:
            return seen
        here = sum(each.is_here for each in self.brokers_all)
        away = len(self.brokers_all) - here
        gone = f", {away:,} offline" if away else ""
        return (
            f"{counted(here, 'broker')}{gone}, {counted(self.health.get('topics', 0), 'topic')}, "
            f"{counted(self.health.get('partitions', 0), 'partition')}"
        )

    @cached_property
    def alerts(self) -> Sequence[AlertShown]:
        return [_alert(each) for each in self.health.get("alerts", ())]

    @property
    def electable(self) -> int:
        """Return the number of partitions whose preferred replica can be elected now."""
        found: int = self._condition("electable").get("count", 0)
        return found

    @property
    def conditions(self) -> Sequence[ConditionShown]:
        return [
            ConditionShown(name, title, because, found.get("count", 0), _examples(found, "partition", _FEW))
            for name, title, because in _CONDITIONS
            for found in [self._condition(name)]
        ]

    @property
    def topics_named(self) -> set[str]:
        """Return the topics of all examples."""
        lists = [each.examples for each in self.alerts] + [each.examples for each in self.conditions]
        return {example.topic for each in lists for example in each.named if example.topic is not None}

    def _condition(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.health.get("conditions", {}).get(name, {})
        return found

    @property
    def settings_unknown(self) -> int:
        """Return the number of topics whose settings are not known and thus not judged."""
        found: int = self.health.get("settings_unknown", {}).get("count", 0)
        return found

    @cached_property
    def brokers_all(self) -> Sequence[BrokerShown]:
        rows = self.health.get("brokers", ())
        replicas = max((row["replicas"] for row in rows), default=0) or 1
        leaders = max((max(row["leaders"], row["preferred"]) for row in rows), default=0) or 1
        return [_broker(row, replicas, leaders) for row in rows]

    @property
    def brokers(self) -> Sequence[BrokerShown]:
        """Return the brokers to show: offline ones first, then by rack."""
        order = sorted(self.brokers_all, key=lambda each: (each.is_here, each.rack, each.id))
        return order[:BROKERS_SHOWN]

    @property
    def spreads(self) -> Sequence[tuple[str, str]]:
        """Return the spreads over the online brokers."""
        names = (
            ("leaders_spread", "leaders"),
            ("preferred_spread", "preferred leaders"),
            ("replicas_spread", "replicas"),
        )
        return [(label, full(self.health.get(name))) for name, label in names]

    @property
    def those_here(self) -> str:
        """Return the ids of online brokers, as the placement form takes them."""
        return id_ranges(each.id for each in self.brokers_all if each.is_here)


def elected_said(event: StoredEvent) -> str:
    """Describe the result of the election in a `PreferredLeadersElected` event."""
    when = f"{day(event.time)} at {clock(event.time)} UTC"
    left = [
        f"{counted(count, 'partition')} not elected: {why}."
        for why, count in sorted(event.data["refused"].items())
    ]
    done = f"Last election on {when} by {event.metadata.actor}: {counted(event.data['elected'], 'partition')}."
    return " ".join([done, *left])


def _alert(found: Mapping[str, Any]) -> AlertShown:
    name, count = str(found.get("alert")), int(found.get("count", 0))
    noun, what = _ALERTS.get(name, ("", ""))
    title = f"{counted(count, noun)} {what}" if noun else f"{name.replace('-', ' ').capitalize()}: {count:,}"
    what_to_do, severity = str(found.get("what_to_do", "")), str(found.get("severity", ""))
    # The count of leaders is no number of brokers, and its examples are brokers.
    examples = _examples({**found, "count": 0}, "broker") if name == "leaders-uneven" else _examples(found, noun)
    return AlertShown(
        name=name,
        title=title,
        severity=severity,
        tone=_TONES.get(severity, "plain"),
        what_to_do=what_to_do,
        examples=examples,
        # Of uneven leaders, an election is advised where it is enough.
        by_placement=name in _BY_PLACEMENT or (name == "leaders-uneven" and "placement" in what_to_do),
    )


def _examples(found: Mapping[str, Any], noun: str, most: int = _EXAMPLES) -> ExamplesShown:
    """Return the examples of an alert or condition; `noun` is their kind."""
    names = [str(each) for each in found.get("examples", ())][:most]
    left = int(found.get("count", 0)) - len(names) if names else 0
    return ExamplesShown([ExampleShown(name, _topic(name, noun)) for name in names], max(left, 0))


def _topic(name: str, noun: str) -> str | None:
    if noun == "partition":
        return name.rpartition("-")[0]
    return name if noun == "topic" else None


def _broker(row: Mapping[str, Any], replicas: int, leaders: int) -> BrokerShown:
    lag = row.get("lag_time_max_ms")
    return BrokerShown(
        id=row["id"],
        rack=row.get("rack") or "none",
        is_here=row["is_here"],
        replicas=row["replicas"],
        leaders=row["leaders"],
        preferred=row["preferred"],
        lag_time="not known" if lag is None else span(lag),
        replicas_share=100 * row["replicas"] / replicas,
        leaders_share=100 * row["leaders"] / leaders,
        preferred_share=100 * row["preferred"] / leaders,
    )
