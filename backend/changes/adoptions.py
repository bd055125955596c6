"""Adoption of topics that a cluster already holds: its plan, made from what clusters answer, and its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import ADOPTION
from backend.domain.base.errors import FieldError, NotFound, PlanStale, ValueInvalid
from backend.domain.clusters import adoption_plan
from backend.domain.clusters.adoption import AdoptedTopic, Adoption, AdoptionCommand, BeginAdoption
from backend.domain.clusters.adoption_facts import AdoptionFacts, DeclaredStream, FoundTopic
from backend.domain.clusters.adoption_plan import AdoptionPlan
from backend.domain.names.formats import ClusterFormats, technical_name
from backend.domain.names.names import LONGEST_NAME, LONGEST_STREAM, StreamName, check_name
from backend.kafka.admin.survey import ClusterPlace, holdings, survey
from backend.queries.base.naming import leaf_formats
from backend.queries.clusters.adoptions import list_environments
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.tenants.streams import StreamRow, list_streams
from backend.queries.tree.trees import MAIN
from backend.settings import Settings

NAMED = "tenant/instance/environment/stream=topic"
AdoptionChange = Change[Adoption | None, AdoptionCommand]


def begin_adoption(cluster: str, topics: tuple[AdoptedTopic, ...]) -> AdoptionChange:
    """Start the adoption of these topics; a worker declares their streams."""
    command = BeginAdoption(cluster=cluster, topics=topics)
    return Change(ADOPTION, f"adoption-{cluster}", lambda _: command)


def check_reviewed(plan: AdoptionPlan, digest: str) -> AdoptionPlan:
    """Return the plan if its digest is the one that the operator reviewed. Raises PlanStale."""
    if plan.digest != digest:
        raise PlanStale(
            f"the plan for adopting {plan.cluster} has changed since you read it; read it again",
            (FieldError("/digest", f"the current digest is {plan.digest}"),),
        )
    return plan


def plan_adoption(
    reading: Callable[[], AbstractContextManager[Connection]],
    config: Settings,
    cluster: str,
    named: list[str],
    *,
    take_settings: bool = False,
) -> AdoptionPlan:
    """Return the plan of adopting the cluster's topics.

    `named` resolves ambiguous names, in the form `NAMED`; with `take_settings` new streams declare every setting
    of their topic that can be declared.

    Raises NotFound, ValueInvalid, NameInvalid, ClusterSilent.
    """
    given = _named(named)
    with reading() as connection:
        rows = {row.name: row for row in list_clusters(connection)}
        leaves = leaf_formats(connection, MAIN)
        environments = list_environments(connection)
        streams = [row for row in list_streams(connection) if row.tree == MAIN]
    if cluster not in rows:
        raise NotFound(f"there is no cluster {cluster!r}; GET /clusters lists them")
    seconds = config.probe_timeout_seconds
    headers = (config.copy_flags_header, config.copy_origin_header)
    topics, groups = survey(_place(rows[cluster]), seconds, headers)
    facts = _facts(rows[cluster], topics, groups, leaves, environments, streams)
    # Other clusters are queried for the streams that the topics map to; a first plan tells which those are.
    found = [row.stream for row in adoption_plan.plan(facts, given).topics if row.stream]
    formats = {leaf.cluster: leaf.topic_format for leaf in facts.leaves if leaf.cluster != cluster}
    elsewhere = holdings(
        [_place(rows[name]) for name in formats],
        lambda name: {technical_name(formats[name], stream) for stream in found},
        seconds,
    )
    return adoption_plan.plan(replace(facts, elsewhere=elsewhere), given, take_settings=take_settings)


def _facts(
    row: ClusterRow,
    topics: list[FoundTopic],
    groups: list[tuple[str, str]],
    leaves: Sequence[ClusterFormats],
    environments: list[tuple[str, str, str]],
    streams: list[StreamRow],
) -> AdoptionFacts:
    mine = ClusterFormats(row.name, row.topic_format, row.subject_format)
    return AdoptionFacts(
        cluster=mine,
        group_format=row.group_format,
        in_tree=mine in leaves,
        topics=topics,
        groups=groups,
        environments=environments,
        streams={
            StreamName(each.tenant, each.instance, each.environment, each.name): DeclaredStream(
                settings=each.settings,
                topic_id=each.topic_ids.get(row.name),
            )
            for each in streams
        },
        leaves=[*leaves] if mine in leaves else [*leaves, mine],
        elsewhere={},
    )


def _place(row: ClusterRow) -> ClusterPlace:
    return ClusterPlace(row.name, row.bootstrap_servers, row.properties)


def _named(given: list[str]) -> dict[str, StreamName]:
    """Parse `tenant/instance/environment/stream=topic` into topic -> stream.

    Raises ValueInvalid or NameInvalid.
    """
    found: dict[str, StreamName] = {}
    for number, text in enumerate(given):
        stream, _, topic = text.partition("=")
        parts = stream.split("/")
        if len(parts) != 4 or not topic or topic in found:
            problem = "is named twice" if topic in found else f"is not {NAMED}"
            detail = f"{text[:300]!r} {problem}"
            raise ValueInvalid(detail, (FieldError(f"/as/{number}", detail),))
        for part, what in zip(parts, ("tenant", "instance", "environment", "stream"), strict=True):
            longest = LONGEST_STREAM if what == "stream" else LONGEST_NAME
            check_name(part, what, pointer=f"/as/{number}", longest=longest)
        found[topic] = StreamName(*parts)
    return found
