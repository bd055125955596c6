"""The metrics whose history is kept, with the unit, the aggregate and the permission of each.

A metric has one series for each subject, whose form is that of the metric's `subject`. Names are fixed: charts,
the REST API and the command line use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from backend.domain.access.access import Action
from backend.domain.base.errors import ValueInvalid

ALL = "all"
"""Subject of the sum, or maximum, over everything."""


class Aggregate(StrEnum):
    """Function that makes one point of several samples."""

    MEAN = "mean"
    MAX = "max"
    SUM = "sum"


class Area(StrEnum):
    """Part of Treeline that a metric is about; also the heading under which charts are offered."""

    DISTRIBUTION = "Distribution"
    GROUPS = "Groups"
    CLUSTERS = "Clusters"
    SWITCHES = "Switches"
    ZONES = "Zones"


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """A metric."""

    name: str
    area: Area
    unit: str
    """Unit of its values, such as `records/s`."""
    text: str
    """Name for people, such as "Lag"."""
    subject: str
    """Form of its subjects, such as `CLUSTER:LEVEL`."""
    aggregate: Aggregate
    action: Action
    """Permission to read it; READ_TENANT: in one of the subject's tenants."""
    is_sampled: bool = True
    """False if it is computed from the event log when it is read."""


def _metrics(area: Area, action: Action, *rows: tuple[str, str, str, str, Aggregate]) -> dict[str, MetricInfo]:
    return {
        name: MetricInfo(
            name=name,
            area=area,
            unit=unit,
            text=text,
            subject=subject,
            aggregate=aggregate,
            action=action,
            is_sampled=area is not Area.SWITCHES,
        )
        for name, text, unit, subject, aggregate in rows
    }


_EDGE, _GROUP, _CLUSTER, _BROKER = "CLUSTER:LEVEL", "CLUSTER/GROUP", "CLUSTER", "CLUSTER/BROKER"

METRICS: Mapping[str, MetricInfo] = {
    **_metrics(
        Area.DISTRIBUTION,
        Action.READ_ESTATE,
        ("edge.records_per_second", "Records copied", "records/s", _EDGE, Aggregate.MEAN),
        ("edge.lag_records", "Lag", "records", _EDGE, Aggregate.MAX),
        ("edge.wait_seconds", "Wait", "s", _EDGE, Aggregate.MAX),
    ),
    **_metrics(
        Area.GROUPS,
        Action.READ_TENANT,
        ("group.lag_records", "Lag", "records", _GROUP, Aggregate.MAX),
        ("group.records_per_second", "Records consumed", "records/s", _GROUP, Aggregate.MEAN),
    ),
    **_metrics(
        Area.CLUSTERS,
        Action.READ_ESTATE,
        ("cluster.bytes_in_per_second", "Bytes appended", "B/s", _CLUSTER, Aggregate.MEAN),
        (
            "cluster.under_replicated_partitions",
            "Under-replicated partitions",
            "partitions",
            _CLUSTER,
            Aggregate.MAX,
        ),
        ("cluster.offline_partitions", "Offline partitions", "partitions", _CLUSTER, Aggregate.MAX),
        ("broker.leaders", "Leaders", "partitions", _BROKER, Aggregate.MAX),
        ("broker.replicas", "Replicas", "partitions", _BROKER, Aggregate.MAX),
        ("broker.bytes", "Size of replicas", "B", _BROKER, Aggregate.MAX),
    ),
    **_metrics(
        Area.SWITCHES,
        Action.READ_ESTATE,
        ("switch.hold_ms", "Hold time of clients", "ms", "all or SOURCE", Aggregate.MAX),
    ),
    **_metrics(
        Area.ZONES,
        Action.READ_ESTATE,
        ("zones.cross_zone_bytes", "Bytes between zones", "B", "all or FROM>TO", Aggregate.SUM),
    ),
}
"""All metrics by name."""


def metric_called(name: str) -> MetricInfo:
    """Return the metric of this name. Raises ValueInvalid, which lists the known ones."""
    found = METRICS.get(name)
    if found is None:
        raise ValueInvalid(f"there is no metric {name[:60]!r}; known metrics: {', '.join(METRICS)}")
    return found
