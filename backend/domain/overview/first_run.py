"""Steps of a first run: from an empty estate to a record that has arrived on another cluster.

    clusters --> tree --> stream --> record

Each step shows what was found so far. Tenants have the last two, for their own streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from backend.domain.access.access import Action
from backend.domain.base.words import counted
from backend.domain.overview.problems import address, because

ENOUGH_CLUSTERS = 2
SHOWN_FOR = timedelta(hours=1)
"""Time after the first stream's declaration for which completed steps are still shown."""
LONGEST_SHOWN = timedelta(days=1)
"""Time after it for which any steps are shown: counts of removed streams and tasks are deleted, and that must not
bring the steps back."""
_MOST_NAMED = 6


class Progress(StrEnum):
    """Progress of a step."""

    DONE = "done"
    NEXT = "next"
    LATER = "later"


@dataclass(frozen=True, kw_only=True)
class FirstCluster:
    """A cluster, with what the last connection to it found."""

    name: str
    is_online: bool
    brokers: int | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Places:
    """The first tenant, instance and environment that have what follows, as far as there are any."""

    tenant: str | None = None
    instance: str | None = None
    environment: str | None = None
    stream: str | None = None
    """Last part of the stream's name."""
    declared_at: datetime | None = None
    """Time at which the first stream ever was declared, though it may have been deleted since."""

    @property
    def name(self) -> str:
        """Return the names that there are, as a path."""
        return "/".join(part for part in (self.tenant, self.instance, self.environment, self.stream) if part)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A copy of a record of a stream, on another cluster."""

    stream: str
    source: str
    target: str
    latency_ms: int | None = None
    """Time from the record's production to its copy, of the last copies."""


@dataclass(frozen=True, kw_only=True)
class Produced:
    """The last message that somebody produced to the stream from Treeline."""

    cluster: str
    partition: int
    offset: int


@dataclass(frozen=True, kw_only=True)
class FirstRunFacts:
    """Everything that the steps depend on."""

    now: datetime
    clusters: Sequence[FirstCluster] | None
    """None: a tenant, whose steps begin with its streams."""
    has_tree: bool = False
    places: Places = Places()
    arrival: Arrival | None = None
    has_copied: bool = False
    """Distributors have copied records of tenants, even if it is not known which arrived where."""
    produced: Produced | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of a step so far, and the page on which a fault is mended."""

    text: str
    is_good: bool = True
    label: str | None = None
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """Link of a step, and the permission that its page needs (in the tenant, if there is one)."""

    label: str
    address: str
    action: Action
    tenant: str | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step."""

    number: int
    title: str
    progress: Progress
    hint: str
    findings: tuple[Finding, ...] = ()
    way: Way | None = None


def first_run(facts: FirstRunFacts) -> tuple[Step, ...]:
    """Return the steps; none if there is nothing to set up any more."""
    declared = facts.places.stream is not None
    has_clusters = facts.clusters is None or len(facts.clusters) >= ENOUGH_CLUSTERS
    has_tree = facts.clusters is None or facts.has_tree
    has_arrived = facts.arrival is not None or facts.has_copied
    done = [has_clusters, has_tree, declared, has_arrived]
    declared_at = facts.places.declared_at
    # A record arrives only where all steps are done: what is removed later does not begin a first run again.
    if declared_at is None:
        is_over = has_arrived
    else:
        is_over = facts.now - declared_at > (SHOWN_FOR if has_arrived else LONGEST_SHOWN)
    if is_over:
        return ()
    makers = (_clusters, _tree, _stream, _record)
    first = 0 if facts.clusters is not None else 2
    following = next((number for number in range(first, 4) if not done[number]), None)
    return tuple(
        makers[number](
            facts,
            number - first + 1,
            Progress.DONE if done[number] else Progress.NEXT if number == following else Progress.LATER,
        )
        for number in range(first, 4)
    )


def _clusters(facts: FirstRunFacts, number: int, progress: Progress) -> Step:
    clusters = facts.clusters or ()
    findings = [_found(cluster) for cluster in clusters[:_MOST_NAMED]]
    if facts.has_tree or len(clusters) > _MOST_NAMED:
        online = sum(cluster.is_online for cluster in clusters)
        findings = [Finding(text=f"{online:,} of {counted(len(clusters), 'cluster')} online.", is_good=online > 0)]
    adding = Way(
        label="Add cluster" if clusters else "Add the first cluster",
        address="/clusters/-new",
        action=Action.CHANGE_ESTATE,
    )
    return Step(
        number=number,
        title="Add two clusters",
        progress=progress,
        hint="Kafka clusters that exist already. The form connects to each before it is added, and says what it "
        "found.",
        findings=tuple(findings),
        way=None if progress is Progress.DONE else adding,
    )


def _found(cluster: FirstCluster) -> Finding:
    if cluster.is_online:
        brokers = "" if cluster.brokers is None else f", {counted(cluster.brokers, 'broker')}"
        return Finding(text=f"{cluster.name} is online{brokers}.")
    return Finding(
        text=f"{cluster.name} is offline{because(cluster.reason)} "
        "Check its bootstrap servers and client properties.",
        is_good=False,
        label=f"Change {cluster.name}",
        address=f"/clusters/{cluster.name}/-change",
    )


def _tree(facts: FirstRunFacts, number: int, progress: Progress) -> Step:
    names = [cluster.name for cluster in facts.clusters or ()]
    way = None
    if progress is Progress.NEXT:
        way = Way(label="Form the tree", address=tree_of(names), action=Action.CHANGE_ESTATE)
    return Step(
        number=number,
        title="Form the tree",
        progress=progress,
        hint="Clusters are the leaves of a binary tree; records are copied between all of them along it. The "
        "editor opens with your clusters, and proves that each gets the records of all others.",
        findings=(Finding(text="The tree is set."),) if progress is Progress.DONE else (),
        way=way,
    )


def tree_of(names: Sequence[str]) -> str:
    """Return the address of the tree's editor, in which these clusters are leaves already."""
    if not names:
        return "/tree/edit"
    # Each cluster beside the last one, which stands at the root's right end.
    joining = (f"add:r{'1' * number}:{name}" for number, name in enumerate(names[1:_MOST_NAMED]))
    return f"/tree/edit?steps={','.join((f'begin:r:{names[0]}', *joining))}"


def _stream(facts: FirstRunFacts, number: int, progress: Progress) -> Step:
    places = facts.places
    missing = _missing(places)
    findings = []
    if places.tenant is not None:
        what = ("Tenant", "Instance", "Environment", "Stream")[places.name.count("/")]
        findings.append(Finding(text=f"{what} {places.name} exists."))
    return Step(
        number=number,
        title="Declare a stream",
        progress=progress,
        hint="A stream is a topic on every cluster of the tree, in an environment of a tenant's instance.",
        findings=tuple(findings),
        way=missing if progress is Progress.NEXT else None,
    )


def _missing(places: Places) -> Way | None:
    """Return the link to the form of what is missing next."""
    here = "/tenants"
    if places.tenant is None:
        return Way(label="Create tenant", address=f"{here}/-new", action=Action.CHANGE_ESTATE)
    tenant = places.tenant
    here += f"/{tenant}"
    if places.instance is None:
        return Way(label="Create instance", address=f"{here}/-new", action=Action.MANAGE_TENANT, tenant=tenant)
    here += f"/{places.instance}"
    if places.environment is None:
        return Way(label="Create environment", address=f"{here}/-new", action=Action.MANAGE_TENANT, tenant=tenant)
    here += f"/{places.environment}"
    return Way(label="Declare stream", address=f"{here}/-new", action=Action.DECLARE_STREAMS, tenant=tenant)


def _record(facts: FirstRunFacts, number: int, progress: Progress) -> Step:
    places, arrival = facts.places, facts.arrival
    findings: tuple[Finding, ...] = ()
    way = None
    if arrival is not None:
        after = "" if arrival.latency_ms is None else f" after {arrival.latency_ms / 1000:.1f} s"
        text = f"A record of {arrival.stream} on {arrival.source} arrived on {arrival.target}{after}."
        findings = (Finding(text=text),)
        # A message of another stream is another record.
        produced = facts.produced if arrival.stream == places.name else None
        way = Way(
            label="Trace the record",
            address=_trace(arrival, produced),
            action=Action.READ_TENANT,
            tenant=places.tenant,
        )
    elif facts.has_copied:
        findings = (Finding(text="Distributors have copied records."),)
    elif progress is Progress.NEXT:
        produced = facts.produced
        if produced is not None:
            findings = (Finding(text=f"A message was produced on {produced.cluster}; its copies are awaited."),)
        way = Way(
            label="Produce message",
            address=f"/tenants/{places.name}/-messages/-produce",
            action=Action.PRODUCE_MESSAGES,
            tenant=places.tenant,
        )
    return Step(
        number=number,
        title="See a record arrive",
        progress=progress,
        hint="Produce one message to the stream, here or with any Kafka client, and see it on the other clusters.",
        findings=findings,
        way=way,
    )


def _trace(arrival: Arrival, produced: Produced | None) -> str:
    if produced is None:
        return address("/trace", stream=arrival.stream, cluster=arrival.source)
    place = {"partition": str(produced.partition), "offset": str(produced.offset)}
    return address("/trace", stream=arrival.stream, cluster=produced.cluster, **place)
