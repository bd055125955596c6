"""The plan of a switch: what it would move, how long it would take, and its blockers and warnings.

Planning is a dry run: nothing changes. The digest covers what decides the switch and leaves out what differs from
one observation to the next (lags, groups, clients), so that the reviewed plan is the one that is started.
(docs/decisions/0034.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backend.domain.base.known import total
from backend.domain.switch import switch_re_reads
from backend.domain.switch.cluster_switch import ALL_LEAVES, NEAR_RECORDS, Moving, Retarget
from backend.domain.switch.switch_checks import Finding, check
from backend.domain.switch.switch_facts import (
    ActiveFact,
    ClientFact,
    Facts,
    OffsetFact,
    PartitionOf,
    Place,
    StreamFact,
    SwitchRequest,
)
from backend.domain.switch.switch_routes import Kept, restored, retargets
from backend.domain.switch.switch_what_if import WhatIf, consequences, leave_out
from backend.domain.tree import tree_shape

_LEAST_RECORDS_PER_SECOND = 10_000.0
"""Rate assumed at least of an edge. An edge that keeps up shows only the rate at which records are produced."""
_HEARD_MS, _COPY_MS, _CLOSE_MS, _MOVE_MS = 500, 100, 500, 200
"""Durations measured under load, rounded up (docs/benchmarks.md); `_COPY_MS` is per hop, without its records."""


@dataclass(frozen=True, kw_only=True)
class GroupItem:
    """A group that has committed on the source; `lag_records` to the log's end there, None: unknown."""

    group: str
    technical_group: str
    re_read_bound: int | None
    re_read_estimate: str | None
    """Reason why more than `re_read_bound` records may be re-read; None: the bound holds."""
    lag_records: int | None
    state: str | None
    """State of the group's offset on the target; None: none was set."""
    members_on_source: int
    members_on_target: int


@dataclass(frozen=True, kw_only=True)
class Item:
    """A partition of a stream that clients would use on the target; None for a figure: unknown."""

    tenant: str
    instance: str
    environment: str
    stream: str
    partition: int
    lag_records: int | None
    late_records: int | None
    """Records, of `lag_records`, that would arrive after clients have moved."""
    groups: tuple[GroupItem, ...]

    @property
    def stream_name(self) -> str:
        """Return the whole name of the stream."""
        return f"{self.tenant}/{self.instance}/{self.environment}/{self.stream}"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Expected duration of a phase of the switch, and its reason."""

    phase: str
    ms: int
    most_ms: int
    """Duration if the target lacks as many records when clients hold as the switch allows then."""
    because: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a switch: clients that move, new targets, lags, blockers, warnings and expected durations."""

    request: SwitchRequest
    position: int
    taken_at: str
    moves: tuple[Moving, ...]
    generation: int
    retargets: tuple[Retarget, ...]
    kept: tuple[Kept, ...]
    items: tuple[Item, ...]
    blockers: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    orphaned_streams: tuple[str, ...]
    clients: tuple[ClientFact, ...]
    unreachable_clients: tuple[str, ...]
    lag_records: int | None
    late_records: int | None
    late_from: str
    """`clusters` if the clusters answered; `observations` if the source was unreachable: the figures are then of
    the last moment at which distributors observed it."""
    records_at_risk: int | None
    """Records produced on the source that no other leaf has, as distributors last observed it."""
    expected: tuple[Expected, ...]
    what_if: WhatIf | None
    digest: str

    @property
    def expected_ms(self) -> int:
        """Return for how many milliseconds producers hold."""
        return sum(part.ms for part in self.expected)

    @property
    def expected_most_ms(self) -> int:
        """Return for how many milliseconds producers hold if many records are written meanwhile."""
        return sum(part.most_ms for part in self.expected)

    def document(self) -> dict[str, Any]:
        """Return the whole plan as JSON, for answers and files."""
        request = self.request
        return {
            "digest": self.digest,
            "from": request.source,
            "to": request.target,
            "mode": request.mode,
            "drain": request.drain,
            "tenant": request.tenant,
            "instance": request.instance,
            "environment": request.environment,
            "zone": request.zone,
            "position": self.position,
            "taken_at": self.taken_at,
            "generation": self.generation,
            "moves": [asdict(each) for each in self.moves],
            "retargets": [asdict(each) for each in self.retargets],
            "kept": [asdict(each) for each in self.kept],
            "items": [asdict(each) for each in self.items],
            "blockers": [asdict(each) for each in self.blockers],
            "warnings": [asdict(each) for each in self.warnings],
            "orphaned_streams": list(self.orphaned_streams),
            "clients": [_client(each) for each in self.clients],
            "unreachable_clients": list(self.unreachable_clients),
            "lag_records": self.lag_records,
            "late_records": self.late_records,
            "late_from": self.late_from,
            "records_at_risk": self.records_at_risk,
            "expected_ms": self.expected_ms,
            "expected_most_ms": self.expected_most_ms,
            "expected": [asdict(each) for each in self.expected],
            "what_if": self.what_if and asdict(self.what_if),
        }


def moves_of(active: Iterable[ActiveFact], request: SwitchRequest) -> tuple[Moving, ...]:
    """Return the clients that a request moves: those it names that are active on the source, sorted by name.

    A zone without a row of its own uses its environment's row, and gets its own with the move.
    """
    places: dict[Place, dict[str | None, ActiveFact]] = {}
    for row in active:
        places.setdefault(row.place, {})[row.zone] = row
    found: list[Moving] = []
    for place, rows in sorted(places.items()):
        if not request.names(place):
            continue
        if request.zone is None:
            zones = [zone for zone, row in rows.items() if row.cluster == request.source]
        else:
            its = rows.get(request.zone) or rows.get(None)
            zones = [request.zone] if its is not None and its.cluster == request.source else []
        tenant, instance, environment = place
        found += [
            Moving(tenant=tenant, instance=instance, environment=environment, zone=zone)
            for zone in sorted(zones, key=lambda zone: zone or "")
        ]
    if request.reverses is not None:
        found = [moving for moving in found if moving in request.reverses.moves]
    return tuple(found)


def generation_of(active: Iterable[ActiveFact], moves: Iterable[Moving]) -> int:
    """Return the generation that moved clients get: above all that their environments have had in any zone."""
    places = {moving.place for moving in moves}
    return 1 + max((row.generation for row in active if row.place in places), default=0)


def make(given: Facts, request: SwitchRequest) -> Plan:
    """Make the plan; what-if clusters are left out of a copy of the facts."""
    facts = leave_out(given, request.without)
    moves = moves_of(facts.active, request)
    generation = generation_of(facts.active, moves)
    blockers, warnings = check(facts, request, moves)
    moved: tuple[Retarget, ...] = ()
    kept: tuple[Kept, ...] = ()
    if request.reverses is not None:
        moved = restored(facts.targets, request.reverses.retargets)
    elif request.is_whole_cluster and facts.root is not None:
        moved, kept = retargets(facts.root, facts.targets, request.source, facts.is_online)
    items = tuple(_items(facts, request))
    lag = total(item.lag_records for item in items)
    silent = request.source in facts.answers.silent or not facts.is_online(request.source)
    late, at_risk = lag, facts.at_risk.get(request.source)
    if silent:
        # Records that no other leaf has, as observed, plus those that other leaves report still passing on.
        late = total((at_risk, facts.answers.in_transit or 0))
    return Plan(
        request=request,
        position=facts.position,
        taken_at=facts.taken_at,
        moves=moves,
        generation=generation,
        retargets=moved,
        kept=kept,
        items=items,
        blockers=blockers,
        warnings=warnings,
        orphaned_streams=tuple(each.stream for each in facts.streams if not each.distributed),
        clients=facts.clients,
        unreachable_clients=tuple(w.subject for w in warnings if w.slug == "client-silent"),
        lag_records=lag,
        late_records=late if request.is_emergency else 0,
        late_from="observations" if silent else "clusters",
        records_at_risk=at_risk,
        expected=_expected(facts, request, lag, len(moved)),
        what_if=consequences(given, facts, request.without),
        digest=_digest(facts, request, moves, generation, moved, blockers),
    )


class _Members:
    """Member counts of groups, by the keys they are looked up with."""

    def __init__(self, facts: Facts, request: SwitchRequest) -> None:
        here, there = (facts.answers.groups.get(cluster, ()) for cluster in (request.source, request.target))
        self.on_source = {each.technical_group: len(each.client_ids) for each in here}
        self.on_target = {(each.place, each.group): len(each.client_ids) for each in there}


def _items(facts: Facts, request: SwitchRequest) -> Iterable[Item]:
    known = {(each.technical_group, (each.stream, each.partition)): each for each in facts.offsets}
    members = _Members(facts, request)
    groups: dict[tuple[str, int], list[str]] = {}
    for technical, place in sorted(known.keys() | facts.answers.commits.keys()):
        groups.setdefault(place, []).append(technical)
    for stream in facts.streams:
        if not stream.distributed:
            continue
        tenant, instance, environment = stream.place
        for partition in range(stream.partitions):
            place = (stream.stream, partition)
            lag = facts.answers.lacking.get(place)
            yield Item(
                tenant=tenant,
                instance=instance,
                environment=environment,
                stream=stream.name,
                partition=partition,
                lag_records=lag,
                late_records=lag if request.is_emergency else 0,
                groups=tuple(
                    _group(facts, request, members, stream, place, technical, known.get((technical, place)))
                    for technical in groups.get(place, ())
                ),
            )


def _group(
    facts: Facts,
    request: SwitchRequest,
    members: _Members,
    stream: StreamFact,
    place: PartitionOf,
    technical: str,
    known: OffsetFact | None,
) -> GroupItem:
    group = facts.answers.names.get(technical, technical) if known is None else known.group
    end = facts.answers.ends.get(place)
    committed = facts.answers.commits.get((technical, place), None if known is None else known.committed)
    on_source = members.on_source.get(technical, 0)
    again = switch_re_reads.planned(known)
    if request.is_emergency:
        again = switch_re_reads.in_emergency(
            known,
            committed=committed,
            has_members=on_source > 0,
            source_end=end,
            target_end=facts.answers.target_ends.get(place),
            lacking=facts.answers.lacking.get(place),
        )
    return GroupItem(
        group=group,
        technical_group=technical,
        re_read_bound=again.bound,
        re_read_estimate=again.estimate,
        lag_records=None if end is None or committed is None else max(0, end - committed),
        state=None if known is None else known.state,
        members_on_source=on_source,
        members_on_target=members.on_target.get((stream.place, group), 0),
    )


def _expected(facts: Facts, request: SwitchRequest, lag: int | None, retargeted: int) -> tuple[Expected, ...]:
    """Return for how long producers hold, phase by phase."""
    if request.is_emergency:
        return (_always("moving", _HEARD_MS + _MOVE_MS, "an emergency switch waits for nothing"),)
    hops = facts.way(request.source, request.target)
    if request.drain == ALL_LEAVES:
        hops = max((facts.way(request.source, leaf) for leaf in facts.leaves), key=len, default=hops)
    rates = [facts.edges[edge.source, edge.level].records_per_second or 0.0 for edge in hops if _seen(facts, edge)]
    rate = max(_LEAST_RECORDS_PER_SECOND, min(rates, default=0.0))
    # Clients are told to hold only when the target is close.
    left = NEAR_RECORDS if lag is None else min(lag, NEAR_RECORDS)
    copying, most = (round(1000 * each / rate) + _COPY_MS * len(hops) for each in (left, NEAR_RECORDS))
    because = f"at most {left} records over {len(hops)} hops"
    parts = [
        _always("holding", _HEARD_MS, "clients that long-poll discovery learn of the hold at once"),
        Expected(phase="draining", ms=copying, most_ms=most, because=because),
        _always("closing", _CLOSE_MS, "consumers commit and close"),
    ]
    if retargeted:
        because = f"a barrier for the new targets of {retargeted} distributors"
        parts.append(_always("retargeting", 2 * facts.timing.reconcile_ms, because))
    return (*parts, _always("moving", _MOVE_MS, "clients that long-poll discovery learn of it at once"))


def _always(phase: str, ms: int, because: str) -> Expected:
    """Return a phase whose duration does not depend on the number of records."""
    return Expected(phase=phase, ms=ms, most_ms=ms, because=because)


def _seen(facts: Facts, edge: Any) -> bool:
    return (edge.source, edge.level) in facts.edges


def _client(client: ClientFact) -> dict[str, Any]:
    tenant, instance, environment = client.place
    shown = {name: value for name, value in asdict(client).items() if name != "place"}
    return {**shown, "tenant": tenant, "instance": instance, "environment": environment}


def _digest(
    facts: Facts,
    request: SwitchRequest,
    moves: Sequence[Moving],
    generation: int,
    moved: Sequence[Retarget],
    blockers: Sequence[Finding],
) -> str:
    decides = {
        "wish": {
            **{name: value for name, value in vars(request).items() if name != "reverses"},
            "reverses": request.reverses and request.reverses.switch,
            "without": {
                "clusters": sorted(request.without.clusters),
                "zones": sorted(request.without.zones),
                "brokers": sorted(request.without.brokers),
            },
        },
        "moves": [asdict(each) for each in moves],
        "generation": generation,
        "retargets": [asdict(each) for each in moved],
        "root": None if facts.root is None else tree_shape.document(facts.root),
        "targets": sorted([cluster, level, target] for (cluster, level), target in facts.targets.items()),
        "streams": sorted([each.stream, each.partitions] for each in facts.streams),
        "blockers": sorted([each.slug, each.subject] for each in blockers),
    }
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
