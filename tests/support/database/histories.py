"""Random valid histories: each event is decided on the state that the earlier events gave."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from backend import deciders
from backend.domain.access import user
from backend.domain.base.errors import DomainError
from backend.domain.base.event import Event
from backend.domain.clusters import adoption, cluster
from backend.domain.distribution.edge_losses import (
    Acknowledge,
    EdgeCommand,
    RecordDeadLetter,
    RecordLoss,
    RecordReplacement,
    RecordReplay,
)
from backend.domain.distribution.leaf import EnterRoutes
from backend.domain.distribution.lost_origin import Reroot
from backend.domain.names.names import ApplicationName
from backend.domain.schemas.schema_conflicts import ID_TAKEN, Conflict, RecordConflicts
from backend.domain.switch.cluster_switch import DRAINS, MODES, Moving, Phase, Retarget
from backend.domain.switch.switch_commands import (
    OPERATOR,
    WORKER,
    Abort,
    Advance,
    Complete,
    Force,
    Move,
    RecordArrived,
    StartSwitch,
    SwitchCommand,
)
from backend.domain.tenants import (
    application,
    application_commands,
    application_records,
    stream_records,
    tenant_commands,
)
from backend.domain.tree import tree
from backend.domain.tree.distributor_settings import COMPRESSIONS, ChangeDistributor
from backend.domain.tree.primary_move import MovePrimary, RecordPrimaryMoved
from backend.domain.webhooks import webhook
from backend.domain.zones import route_epochs
from tests.support.database import placement_histories
from tests.support.database.placement_histories import CLUSTERS, Directed

NOW = datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)
PLACE = {"instance": "retail", "environment": "prod"}
TREES: tuple[dict[str, Any], ...] = (
    {"level": 1, "children": [{"cluster": "1"}, {"cluster": "2"}]},
    {"level": 2, "children": [{"cluster": "3"}, {"level": 1, "children": [{"cluster": "1"}, {"cluster": "2"}]}]},
    {"level": 3, "children": [{"cluster": "5"}, {"level": 2, "children": [{"cluster": "4"}, {"cluster": "3"}]}]},
)


def commands(source: random.Random) -> Iterator[Directed]:
    """Yield endless commands, most of them allowed, some refused, some without effect."""
    while True:
        kinds = (
            _cluster,
            _tree,
            _tenant,
            _routes,
            _edge,
            _adoption,
            _schemas,
            _switch,
            placement_histories.placement,
            placement_histories.policy,
            _route_epochs,
            _user,
            _webhook,
            _application,
            _application,
            _stream,
            _stream,
            _stream,
            _stream,
            _stream,
        )
        yield source.choice(kinds)(source)


def events(seed: int, count: int) -> list[tuple[str, Event]]:
    """Return at least `count` events with their streams."""
    states: dict[str, Any] = {}
    history: list[tuple[str, Event]] = []
    for decider, stream, command in commands(random.Random(seed)):
        state = states.get(stream, decider.initial)
        try:
            decided = decider.decide(state, command)
        except DomainError:
            continue
        for event in decided:
            state = decider.evolve(state, event)
            history.append((stream, event))
        states[stream] = state
        if len(history) >= count:
            return history
    raise AssertionError("commands never end")


def _cluster(source: random.Random) -> Directed:
    name = source.choice(CLUSTERS)
    command: cluster.ClusterCommand = source.choice(
        (
            cluster.AddCluster(
                name=name,
                number=int(name),
                bootstrap_servers="127.0.0.1:9",
                zone=source.choice((None, "az1")),
                unreachable="nobody answers",
                properties=source.choice(({}, {"security.protocol": "SSL"})),
            ),
            cluster.ChangeCluster(bootstrap_servers=f"127.0.0.1:{source.randint(1, 3)}"),
            cluster.RemoveCluster(),
            cluster.RecordOnline(kafka_cluster_id=f"kafka-{name}", brokers=source.randint(1, 3)),
            cluster.RecordOffline(reason=source.choice(("refused", "silent"))),
        )
    )
    return deciders.CLUSTER, f"cluster-{name}", command


def _tree(source: random.Random) -> Directed:
    command: tree.TreeCommand = source.choice(
        (
            tree.ReplaceTree(root=source.choice(TREES), known_clusters=frozenset(CLUSTERS)),
            MovePrimary(cluster=source.choice(CLUSTERS), take_over=source.choice((False, True))),
            RecordPrimaryMoved(
                cluster=source.choice(CLUSTERS), previous=source.choice(CLUSTERS), skipped_ids=1000
            ),
            *(
                tree.SwitchTarget(cluster=source.choice(CLUSTERS), level=level, target=source.choice(CLUSTERS))
                for level in (1, 2, 3)
            ),
            ChangeDistributor(
                cluster=source.choice(CLUSTERS),
                level=source.randint(1, 3),
                paused=source.choice((None, False, True)),
                bytes_per_second=source.choice((None, 5_000, 7_000)),
                clear_limit=source.choice((False, False, True)),
                compression=source.choice((None, *COMPRESSIONS)),
            ),
        )
    )
    return deciders.TREE, "tree-main", command


def _switch(source: random.Random) -> Directed:
    switch = f"s{source.randint(1, 3)}"
    moves = (
        Moving(tenant="acme", instance="retail", environment="prod"),
        Moving(tenant="acme", instance="retail", environment="prod", zone="az1"),
    )
    start = StartSwitch(
        switch=switch,
        source=source.choice(CLUSTERS),
        target=source.choice(CLUSTERS),
        mode=source.choice(MODES),
        moves=source.choice((moves, moves[:1])),
        generation=source.randint(2, 9),
        busy={},
        drain=source.choice(DRAINS),
        retargets=(Retarget(cluster="1", level=2, target="3", previous="2"),),
        plan_digest=source.choice((None, "1f2e")),
        reverses=source.choice((None, "s1")),
    )
    command: SwitchCommand = source.choice(
        (
            start,
            *(Advance(phase=phase, measured={"records": source.randint(0, 9)}) for phase in tuple(Phase)[1:6]),
            Force(clients=("orders-1",)),
            Move(measured={"groups": 2}, missing=source.choice(((), ("orders-1",)))),
            Complete(measured={}, report={"re_read_bound": source.randint(0, 9)}),
            RecordArrived(records=3, partitions=(("acme/retail/prod/orders", 0, 7, 9),)),
            Abort(by=source.choice((OPERATOR, WORKER)), reason=source.choice((None, "it took too long"))),
        )
    )
    return deciders.SWITCH, f"switch-{switch}", command


def _route_epochs(source: random.Random) -> Directed:
    node = route_epochs.NodeLiveness(
        node="a",
        is_main=True,
        reported_epoch=source.randint(0, 9),
        open_streams=0,
        silent_seconds=0,
        unbroken_seconds=60,
    )
    return deciders.ROUTE_EPOCHS, route_epochs.EVENT_STREAM, route_epochs.BeginEpoch(fence_lag=2, nodes=(node,))


def _routes(source: random.Random) -> Directed:
    name, version = source.choice(CLUSTERS), source.randint(1, 50)
    if source.random() < 0.5:
        command = EnterRoutes(cluster=name, routes=version, wanted=version, fenced=2, buckets=source.randint(1, 2))
        return deciders.LEAF, f"leaf-{name}", command
    places = {(f"acme/retail/prod/{stream}", 0): source.choice(CLUSTERS) for stream in ("orders", "payments")}
    return deciders.LOST_ORIGIN, f"origin-{name}", Reroot(number=int(name), roots=places)


def _adoption(source: random.Random) -> Directed:
    cluster_name = source.choice(CLUSTERS)
    topic = adoption.AdoptedTopic(
        topic="acme-retail-prod-orders",
        topic_id="topic-a",
        tenant="acme",
        **PLACE,
        stream="orders",
        partitions=1,
        replication_factor=1,
        min_insync_replicas=1,
        retention_ms=-1,
        cleanup_policy="delete",
        max_message_bytes=1000,
        config={},
    )
    command: adoption.AdoptionCommand = source.choice(
        (
            adoption.BeginAdoption(cluster=cluster_name, topics=(topic,)),
            adoption.EndAdoption(refused=source.choice(({}, {"acme-retail-prod-orders": "taken"}))),
        )
    )
    return deciders.ADOPTION, f"adoption-{cluster_name}", command


def _user(source: random.Random) -> Directed:
    name, token, tenant = (source.choice(pair) for pair in (("ada", "bob"), ("ci", "laptop"), ("acme", "globex")))
    tenants = source.choice(({}, {"acme": "member"}, {"acme": "owner", "globex": "member"}))
    command: user.UserCommand = source.choice(
        (
            user.CreateUser(user=name, role="viewer", tenants=tenants, known_tenants=frozenset(tenants)),
            user.ChangeUser(
                role=source.choice(("viewer", "operator")), disabled=source.choice((None, True, False))
            ),
            user.ChangeUser(tenants=tenants, known_tenants=frozenset(tenants)),
            user.GiveMembership(tenant=tenant, membership=source.choice(("member", "owner"))),
            user.EndMembership(tenant=tenant),
            user.SetPassword(),
            user.IssueToken(token=token, now=NOW, expires_at=source.choice((None, NOW + timedelta(days=3)))),
            user.RevokeToken(token=token),
            user.LinkIdentity(issuer="https://id.example", subject=name),
            user.UnlinkIdentity(),
        )
    )
    return deciders.USER, f"user-{name}", command


def _webhook(source: random.Random) -> Directed:
    name, kinds = source.choice(("ops", "audit")), source.choice((("switch",), ("gap", "quarantine")))
    create = webhook.CreateWebhook(
        webhook=name, url="https://receiver.example/t", events=kinds, enabled=True, webhooks=0
    )
    command: webhook.WebhookCommand = source.choice(
        (
            create,
            create,
            webhook.ChangeWebhook(events=kinds, enabled=source.choice((True, False))),
            webhook.RotateSecret(),
            webhook.SendTest(),
            webhook.DeleteWebhook(),
        )
    )
    return deciders.WEBHOOK, f"webhook-{name}", command


def _application(source: random.Random) -> Directed:
    name = ApplicationName("acme", "retail", "prod", source.choice(("billing", "audit")))
    cluster_name, revision = source.choice(CLUSTERS), source.randint(1, 9)
    access = {"operation": source.choice(application.OPERATIONS), "stream": "globex/retail/prod/parcels"}
    streams = tuple(source.sample(("orders", "payments", "globex/retail/prod/parcels"), source.randint(0, 3)))
    facts = application_commands.Facts(may_decide=frozenset({"acme"}))
    command: application_commands.ApplicationCommand = source.choice(
        (
            application_commands.DeclareApplication(name=name, produces=streams, consumes=streams, facts=facts),
            application_commands.ChangeApplication(
                groups=source.choice((None, ("g1",), ("g1", "g2"))),
                produces=streams,
                quotas={"request_percentage": source.choice((None, 50))},
                facts=facts,
            ),
            *(
                application_commands.DecideAccess(application=name, **access, decision=decision, reason="so")
                for decision in application_commands.DECISIONS
            ),
            application_commands.IssueCredentials(),
            application_commands.RevokeCredentials(),
            application_commands.DeleteApplication(clusters=frozenset(source.choice(((), ("1", "2"))))),
            application_records.RecordAccessApplied(
                cluster=cluster_name,
                revision=revision,
                parts={"acls": source.choice(("applied", "none"))},
            ),
            application_records.RecordAccessFailed(cluster=cluster_name, reason="silent"),
            application_records.RecordAccessDrifted(
                cluster=cluster_name, found=("topic x: read",), reason=source.choice((None, "silent"))
            ),
            application_records.RecordAccessRemoved(cluster=cluster_name),
        )
    )
    return deciders.APPLICATION, f"application-{name}", command


def _edge(source: random.Random) -> Directed:
    place = {"cluster": source.choice(CLUSTERS), "level": 1}
    edge = {**place, "target": "2", "stream": "acme/retail/prod/orders"}
    what = {**edge, "partition": 0, "reason": "large"}
    offset = source.randint(1, 4)
    aside = RecordDeadLetter(**what, offset=offset, origin=source.choice((None, (1, 1, offset))))
    command: EdgeCommand = source.choice(
        (
            aside,
            RecordReplay(id=aside.id, clusters=("2",)),
            RecordLoss(**what, first_offset=offset, incarnation=1, last_offset=9),
            RecordReplacement(
                **edge, incarnation=offset, partitions=((0, offset, 0), (1, 5, source.randint(0, 7)))
            ),
            Acknowledge(**place),
        )
    )
    return deciders.EDGE, f"edge-{place['cluster']}-1", command


def _schemas(source: random.Random) -> Directed:
    cluster_name = source.choice(CLUSTERS)
    found = tuple(
        Conflict(kind=ID_TAKEN, subject=subject, version=1, schema_id=7, detail="id 7 is taken")
        for subject in source.sample(("orders-value", "payments-value"), source.randint(0, 2))
    )
    command = RecordConflicts(cluster=cluster_name, conflicts=found)
    return deciders.SCHEMA_CONFLICTS, f"schemas-{cluster_name}", command


def _tenant(source: random.Random) -> Directed:
    name = source.choice(("acme", "globex"))
    command: tenant_commands.TenantCommand = source.choice(
        (
            tenant_commands.CreateTenant(tenant=name),
            tenant_commands.CreateInstance(instance="retail", known_trees=frozenset({"main"})),
            tenant_commands.CreateEnvironment(**PLACE),
            tenant_commands.ChangeEnvironment(**PLACE, margin_seconds=source.randint(1, 9)),
            tenant_commands.ChangeEnvironment(**PLACE, record_name_subjects=source.random() < 0.5),
        )
    )
    return deciders.TENANT, f"tenant-{name}", command


def _stream(source: random.Random) -> Directed:
    place = {**PLACE, "stream": source.choice(("orders", "payments", "parcels"))}
    there = {**place, "cluster": source.choice(CLUSTERS)}
    topic_id = source.choice(("topic-a", "topic-b"))
    command: tenant_commands.TenantCommand = source.choice(
        (
            tenant_commands.DeclareStream(**place),
            tenant_commands.ChangeStream(
                **place, retention_ms=source.randint(1, 9) * 3_600_000, clusters_with_records=()
            ),
            tenant_commands.DeleteStream(**place),
            stream_records.RecordApplied(**there, topic_id=topic_id, replication_factor=source.randint(1, 3)),
            stream_records.RecordApplied(**there, topic_id=topic_id, replication_factor=3),
            stream_records.RecordApplyFailed(**there, reason=source.choice(("no space", "no leader"))),
            stream_records.RecordDrift(
                **there,
                found={"retention.ms": "1"},
                reason=source.choice((None, "not allowed")),
                revision=source.randint(1, 3),
            ),
            stream_records.RecordRemoved(**there),
            stream_records.RecordTopicKept(**there),
            stream_records.RecordTailLost(
                **there,
                partition=source.randint(0, 1),
                first_offset=source.randint(0, 9),
                last_offset=10,
                incarnation=source.randint(1, 3),
            ),
        )
    )
    return deciders.TENANT, f"tenant-{source.choice(('acme', 'globex'))}", command
