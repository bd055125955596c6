"""Execution of adoptions: streams are declared for topics that a cluster holds, some hundreds at a time.

Finished topics are recognized by their streams, so a worker that dies in between costs nothing. The topics
themselves are left to the reconcile loop, which finds and records them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.dispatch import Directed, Dispatcher
from backend.domain.base.errors import DomainError, Kind
from backend.domain.clusters.adoption import AdoptedTopic, EndAdoption
from backend.domain.names.names import StreamName
from backend.domain.tenants.tenant_commands import (
    ChangeStream,
    CreateEnvironment,
    CreateInstance,
    CreateTenant,
    DeclareStream,
    TenantCommand,
)
from backend.domain.topics.stream_settings import StreamSettings
from backend.eventlog.recorded import Metadata
from backend.queries.base import naming
from backend.queries.clusters import adoptions
from backend.queries.clusters.adoptions import OpenAdoption
from backend.queries.tenants import tenants
from backend.queries.tree.trees import MAIN

log = structlog.get_logger("adoption")

ACTOR = "worker:adoption"
TOPICS_AT_ONCE = 200


class Adopter:
    """Executes open adoptions, one batch per call of `work`."""

    def __init__(self, engine: Engine, dispatcher: Dispatcher) -> None:
        self._engine = engine
        self._dispatcher = dispatcher
        self._refused: dict[int, dict[str, str]] = {}

    def work(self) -> bool:
        """Declare a batch of streams of each open adoption, end finished ones; return False if none is open."""
        with self._engine.connect() as connection:
            found = adoptions.list_open(connection)
        for adoption in found:
            self._work_on(adoption)
        return bool(found)

    def _work_on(self, adoption: OpenAdoption) -> None:
        refused = self._refused.setdefault(adoption.position, {})
        with self._engine.connect() as connection:
            left = [
                topic
                for topic in _not_done(connection, adoptions.topics_of(connection, adoption.position))
                if topic.topic not in refused
            ]
        batch = left[:TOPICS_AT_ONCE]
        if not batch:
            end = Directed(
                deciders.ADOPTION,
                f"adoption-{adoption.cluster}",
                EndAdoption(refused=self._refused.pop(adoption.position)),
                _metadata(adoption),
            )
            self._dispatcher.execute_many([end], time=datetime.now(UTC))
            return
        try:
            self._declare(adoption, batch)
        except DomainError as error:
            if error.kind is Kind.UNAVAILABLE:
                raise
            self._one_by_one(adoption, batch, refused)
        log.info("topics adopted", cluster=adoption.cluster, topics=len(batch), left=len(left) - len(batch))

    def _one_by_one(self, adoption: OpenAdoption, batch: Sequence[AdoptedTopic], refused: dict[str, str]) -> None:
        """Declare topics one by one after a refusal (such as a taken name), so that others are not affected."""
        for topic in batch:
            try:
                self._declare(adoption, [topic])
            except DomainError as error:
                if error.kind is Kind.UNAVAILABLE:
                    raise
                log.warning("topic not adopted", cluster=adoption.cluster, topic=topic.topic, reason=error.detail)
                refused[topic.topic] = error.detail

    def _declare(self, adoption: OpenAdoption, batch: Sequence[AdoptedTopic]) -> None:
        def build(connection: Connection) -> list[Directed]:
            return [
                Directed(deciders.TENANT, f"tenant-{tenant}", command, _metadata(adoption))
                for tenant, command in _commands(connection, batch)
            ]

        self._dispatcher.execute_many(build, time=datetime.now(UTC))


def _not_done(connection: Connection, topics: Sequence[AdoptedTopic]) -> list[AdoptedTopic]:
    declared = adoptions.partitions_of_streams(connection)
    return [
        topic
        for topic in topics
        if (present := declared.get(_name(topic))) is None
        or present[0] < topic.partitions
        or present[1] < topic.max_message_bytes
    ]


def _commands(connection: Connection, batch: Sequence[AdoptedTopic]) -> list[tuple[str, TenantCommand]]:
    """Return the commands that declare the batch, with missing tenants, instances and environments."""
    commands: list[tuple[str, TenantCommand]] = []
    declared = adoptions.partitions_of_streams(connection)
    taken = naming.taken_names(connection, MAIN, removing=False)
    for topic in batch:
        name = _name(topic)
        if name in declared:
            grown: dict[str, Any] = {
                "partitions": max(topic.partitions, declared[name][0]),
                "max_message_bytes": max(topic.max_message_bytes, declared[name][1]),
            }
            commands.append((name.tenant, ChangeStream(**_place(name), **grown)))
            continue
        command = DeclareStream(
            **_place(name),
            settings=StreamSettings(
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                min_insync_replicas=topic.min_insync_replicas,
                retention_ms=topic.retention_ms,
                cleanup_policy=topic.cleanup_policy,
                max_message_bytes=topic.max_message_bytes,
                config=topic.config,
            ),
            clusters=taken.clusters,
            taken_topics=dict(taken.topics),
            taken_subjects=dict(taken.subjects),
        )
        commands.append((name.tenant, command))
        taken.add(name)
    return _scopes(connection, commands) + commands


def _scopes(
    connection: Connection, commands: Sequence[tuple[str, TenantCommand]]
) -> list[tuple[str, TenantCommand]]:
    """Return commands for missing tenants, instances and environments that the others need."""
    found: list[tuple[str, TenantCommand]] = []
    places = {
        (tenant, command.instance, command.environment)
        for tenant, command in commands
        if isinstance(command, DeclareStream)
    }
    made: set[tuple[str, ...]] = set()
    for tenant, instance, environment in sorted(places):
        if (tenant,) not in made and tenants.get_tenant(connection, tenant) is None:
            found.append((tenant, CreateTenant(tenant=tenant)))
        if (tenant, instance) not in made and tenants.get_instance(connection, tenant, instance) is None:
            found.append((tenant, CreateInstance(instance=instance, tree=MAIN, known_trees=frozenset({MAIN}))))
        if tenants.get_environment(connection, tenant, instance, environment) is None:
            found.append((tenant, CreateEnvironment(instance=instance, environment=environment)))
        made |= {(tenant,), (tenant, instance)}
    return found


def _metadata(adoption: OpenAdoption) -> Metadata:
    identity = f"adoption-{adoption.position}"
    return Metadata(actor=ACTOR, request_id=identity, causation=identity)


def _place(name: StreamName) -> dict[str, Any]:
    return {"instance": name.instance, "environment": name.environment, "stream": name.stream}


def _name(topic: AdoptedTopic) -> StreamName:
    return StreamName(topic.tenant, topic.instance, topic.environment, topic.stream)
