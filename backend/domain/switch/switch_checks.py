"""Blockers and warnings of a switch plan.

A blocker of a planned switch would keep it from completing or from keeping its guarantees. An emergency switch is
refused only what is impossible; everything else becomes a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from backend.domain.switch.cluster_switch import ALL_LEAVES, Moving
from backend.domain.switch.discovery import PRODUCER
from backend.domain.switch.switch_facts import APPLIED, ActiveFact, ClientFact, Facts, GroupFact, SwitchRequest
from backend.domain.tree.routes import Edge

BLOCKED, RUNNING = "blocked", "running"
TENANT_MOVING = "tenant-moving"
"""Slug of the blocker for a tenant that another switch is moving; it clears without intervention."""
_APART = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A blocker or warning; `subject` names the resource that it concerns."""

    slug: str
    subject: str
    detail: str


def check(
    facts: Facts, request: SwitchRequest, moves: Sequence[Moving]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the blockers and the warnings."""
    blockers = list(_impossible(facts, request, moves))
    hindrances = [
        *_clusters(facts, request),
        *_ways(facts, request),
        *_missing(facts, request),
        *_busy_groups(facts, request),
    ]
    warnings = list(_to_know(facts, request))
    if request.is_emergency:
        return tuple(blockers), tuple(hindrances + warnings)
    return tuple(blockers + hindrances), tuple(warnings)


def _impossible(facts: Facts, request: SwitchRequest, moves: Sequence[Moving]) -> Iterator[Finding]:
    """Yield what makes a switch impossible in either mode."""
    source, target = request.source, request.target
    if source == target:
        yield Finding(slug="same-cluster", subject=target, detail="source and target are the same cluster")
    if target not in facts.leaves:
        yield Finding(
            slug="target-not-in-tree", subject=target, detail="no distributor copies to it; add it to the tree"
        )
    if not facts.is_online(target):
        reason = facts.clusters[target].reason
        yield Finding(
            slug="target-offline", subject=target, detail=f"the cluster is unreachable: {reason or 'offline'}"
        )
    if not moves:
        yield Finding(
            slug="nothing-to-move",
            subject=source,
            detail="no selected environment is active on this cluster; GET /discovery shows the active cluster",
        )
    for tenant in sorted({moving.tenant for moving in moves} & facts.busy.keys()):
        yield Finding(
            slug=TENANT_MOVING,
            subject=tenant,
            detail=f"switch {facts.busy[tenant]} is moving this tenant; wait for it to complete, or abort it",
        )


def _clusters(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    if request.source not in facts.leaves:
        yield Finding(slug="source-not-in-tree", subject=request.source, detail="no distributor copies from it")
    if not facts.is_online(request.source):
        reason = facts.clusters[request.source].reason or "offline"
        yield Finding(
            slug="source-offline",
            subject=request.source,
            detail=f"its records cannot be drained: {reason}",
        )
    for cluster, slug in ((request.source, "source-silent"), (request.target, "target-silent")):
        if facts.is_online(cluster) and cluster in facts.answers.silent:
            reason = facts.answers.silent[cluster]
            yield Finding(slug=slug, subject=cluster, detail=f"the cluster does not respond: {reason}")


def _ways(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    """Yield the distributors on the source's routes that do not copy; the drain would never complete."""
    for edge in _edges(facts, request, request.source):
        seen = facts.edges.get((edge.source, edge.level))
        subject = f"{edge.source}:{edge.level}"
        if seen is not None and seen.paused:
            detail = f"it copies to {edge.target} and is paused; resume it"
            yield Finding(slug="edge-paused", subject=subject, detail=detail)
        elif seen is not None and seen.state == BLOCKED:
            detail = f"it copies to {edge.target} and is blocked: {seen.reason or 'no reason reported'}"
            yield Finding(slug="edge-blocked", subject=subject, detail=detail)


def _edges(facts: Facts, request: SwitchRequest, origin: str) -> list[Edge]:
    """Return the edges that an origin's records take to the clusters to be drained to, each once."""
    if request.target not in facts.leaves:
        return []
    drained = [request.target]
    if request.drain == ALL_LEAVES:
        drained += [leaf for leaf in facts.leaves if facts.is_online(leaf)]
    return list(dict.fromkeys(edge for to in drained for edge in facts.way(origin, to)))


def _missing(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    """Yield topics, partitions, credentials and ACLs that clients need and the target lacks."""
    target = request.target
    if target not in facts.leaves:
        return
    for stream in facts.streams:
        if not stream.distributed:
            continue
        state, why = stream.applied.get(target, "pending"), stream.failures.get(target)
        if state != APPLIED:
            detail = f"its topic on {target} is {state}" + (f": {why}" if why else "")
            yield Finding(slug="stream-not-there", subject=stream.stream, detail=detail)
        elif target in facts.answers.queried:
            there = facts.answers.partitions.get((target, stream.stream), 0)
            if there < stream.partitions:
                detail = f"its topic on {target} has {there} partitions, but {stream.partitions} are configured"
                yield Finding(slug="fewer-partitions", subject=stream.stream, detail=detail)
    for application in facts.applications:
        state, why = application.applied.get(target, "pending"), application.failures.get(target)
        if state != APPLIED:
            detail = f"its credentials and ACLs on {target} are {state}" + (f": {why}" if why else "")
            yield Finding(slug="access-not-there", subject=application.application, detail=detail)


def _busy_groups(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    """Yield groups with members on the target, where the broker refuses to set their offsets."""
    for group in facts.answers.groups.get(request.target, ()):
        if _is_at_home(facts.active, request.target, group):
            continue
        read, members = ", ".join(sorted(group.streams)) or "streams", ", ".join(group.client_ids[:3])
        detail = f"it has members on {request.target} ({members}) that commit offsets for {read}; stop them"
        yield Finding(slug="group-active-on-target", subject=group.technical_group, detail=detail)


def _is_at_home(active: Iterable[ActiveFact], cluster: str, group: GroupFact) -> bool:
    """Return whether discovery sends clients of the group's environment (of another zone) to this cluster."""
    return any(row.place == group.place for row in active if row.cluster == cluster)


# --- warnings


def _to_know(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    source, target = request.source, request.target
    if source == facts.primary:
        detail = "it is the primary cluster: schema writes stay there; PUT /trees/main/primary moves them"
        yield Finding(slug="source-is-primary", subject=source, detail=detail)
    if request.drain != ALL_LEAVES and not request.is_emergency:
        detail = (
            f"order per key across the switch is guaranteed on {target} only; to have it on all leaves, "
            "wait for records on all online leaves"
        )
        yield Finding(slug="order-on-target-only", subject=target, detail=detail)
    for stream in facts.streams:
        if not stream.distributed:
            detail = f"the stream is not distributed; its records stay on {source}"
            yield Finding(slug="stream-orphaned", subject=stream.stream, detail=detail)
    if request.is_emergency:
        for place in sorted({stream.place for stream in facts.streams} & facts.margin):
            detail = "its offsets are translated by timestamp with a margin; groups may re-read up to that margin"
            yield Finding(slug="margin-mode", subject="/".join(place), detail=detail)
    yield from _elsewhere(facts, request)
    yield from _clients(facts, request)


def _elsewhere(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    """Yield distributors that may delay records of other origins, and distributors without a running task."""
    told = {(edge.source, edge.level) for edge in _edges(facts, request, request.source)}
    for cluster, level in sorted(told):
        seen = facts.edges.get((cluster, level))
        if seen is not None and not seen.paused and seen.state not in (RUNNING, BLOCKED):
            detail = f"it is {seen.state}: {seen.reason or 'no reason reported'}"
            yield Finding(slug="edge-not-running", subject=f"{cluster}:{level}", detail=detail)
    for origin in facts.leaves:
        for other in _edges(facts, request, origin):
            key = (other.source, other.level)
            seen = facts.edges.get(key)
            if key in told or seen is None or not (seen.paused or seen.state == BLOCKED):
                continue
            told.add(key)
            detail = f"records of {origin} on {request.source} may wait for this distributor: " + (
                "paused" if seen.paused else seen.reason or "blocked"
            )
            yield Finding(slug="edge-of-other-origin", subject=f"{key[0]}:{key[1]}", detail=detail)


def _clients(facts: Facts, request: SwitchRequest) -> Iterator[Finding]:
    for client in facts.clients:
        if _is_silent(facts, client):
            yield Finding(
                slug="client-silent",
                subject=client.client_id,
                detail=f"{'/'.join(client.place)}: no report for {client.silent_ms // 1000} s; "
                "the switch does not wait for it",
            )
    unknown = _unknown_members(facts, request)
    for group in facts.answers.groups.get(request.source, ()):
        strangers = sorted(unknown & set(group.client_ids))
        if strangers:
            yield Finding(
                slug="client-never-reported",
                subject=group.technical_group,
                detail=f"members on {request.source} that do not use discovery, or more than report to it, "
                "will stay there: " + ", ".join(strangers[:3]),
            )
    for each in facts.not_followed:
        detail = f"its offsets for {each.topic} are not translated: {each.reason}"
        yield Finding(slug="group-not-followed", subject=each.technical_group, detail=detail)


def _is_silent(facts: Facts, client: ClientFact) -> bool:
    return client.silent_ms > 3 * facts.timing.ttl_ms


def _unknown_members(facts: Facts, request: SwitchRequest) -> set[str]:
    """Return the Kafka client ids with more group members than consumers known to discovery."""
    members = Counter(name for group in facts.answers.groups.get(request.source, ()) for name in group.client_ids)
    heard: Counter[str] = Counter()
    for client in facts.clients:
        if client.role != PRODUCER and not _is_silent(facts, client):
            # Clients append a random suffix to their Kafka client id when they report to discovery.
            heard.update({client.client_id, _APART.sub("", client.client_id)})
    return {name for name, count in members.items() if count > heard[name]}
