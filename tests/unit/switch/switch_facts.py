"""Facts for plans of switches: five leaves, one environment on 2, one stream that is everywhere."""

from __future__ import annotations

from typing import Any

from backend.domain.switch.switch_facts import (
    ActiveFact,
    ClusterAnswers,
    ClusterFact,
    EdgeFact,
    Facts,
    StreamFact,
    SwitchRequest,
    Timing,
)
from backend.domain.tree import tree_shape
from tests.support.domain.trees import UNBALANCED, parsed

ROOT = parsed(UNBALANCED)
LEAVES = tree_shape.leaves(ROOT)
PROD = ("acme", "retail", "prod")
ORDERS = "acme/retail/prod/orders"
REQUEST = SwitchRequest(source="2", target="4", tenant="acme")
RUNNING = EdgeFact(paused=False, state="running", reason=None)


def active(place: tuple[str, str, str] = PROD, cluster: str = "2", generation: int = 1, zone: str | None = None):
    tenant, instance, environment = place
    return ActiveFact(
        tenant=tenant,
        instance=instance,
        environment=environment,
        zone=zone,
        cluster=cluster,
        generation=generation,
    )


def stream(name: str = ORDERS, **changes: Any) -> StreamFact:
    known: dict[str, Any] = {"partitions": 2, "distributed": True, "applied": dict.fromkeys(LEAVES, "applied")}
    return StreamFact(**{"stream": name, "place": tuple(name.split("/")[:3]), **known, **changes})


FACTS = Facts(
    position=7,
    taken_at="2026-11-23T02:00:00+00:00",
    root=ROOT,
    primary="1",
    targets=tree_shape.default_targets(ROOT),
    clusters={name: ClusterFact(name=name, zone=f"az{name}", state="online") for name in LEAVES},
    active=(active(),),
    busy={},
    edges=dict.fromkeys(tree_shape.default_targets(ROOT), RUNNING),
    streams=(stream(),),
    other_streams=(),
    applications=(),
    clients=(),
    offsets=(),
    not_followed=(),
    margin=frozenset(),
    at_risk=dict.fromkeys(LEAVES, 0),
    timing=Timing(ttl_ms=10_000, reconcile_ms=1_000),
    answers=ClusterAnswers(
        queried=frozenset({"2", "4"}),
        partitions={(cluster, ORDERS): 2 for cluster in ("2", "4")},
        lacking={(ORDERS, 0): 0, (ORDERS, 1): 0},
    ),
)
