"""Every metric of the API process, by the name that Prometheus sees: docs, dashboard and alert rules are held
to this.

Nodes of the zone router have metrics of their own (`workers/zone_router/traffic.py`), which they serve themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Family = CounterMetricFamily | GaugeMetricFamily
_EDGE = ("source", "target", "level")
_STREAM = (*_EDGE, "stream")
_CLUSTER = ("cluster",)


@dataclass(frozen=True)
class Metric:
    """Counters end in `_total`; all others are gauges."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")

    def family(self) -> Family:
        """An empty one, to be filled at a scrape."""
        if self.is_counter:
            return CounterMetricFamily(self.name.removesuffix("_total"), self.text, labels=self.labels)
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)


_ALL = (
    Metric("treeline_build_info", "1; the program that runs", ("version",)),
    Metric("treeline_event_log_position", "Newest event's position"),
    Metric("treeline_projection_lag_events", "Events not projected yet", ("projection",)),
    Metric(
        "treeline_lease_held",
        "1 if somebody has the lease; of distributors' units only while they run",
        ("lease",),
    ),
    Metric(
        "treeline_lease_fenced_total",
        "Times that a worker which was alive found the lease taken by another one",
        ("lease",),
    ),
    Metric("treeline_cluster_online", "1 if the cluster answers", _CLUSTER),
    Metric(
        "treeline_application_access_failed", "Applications whose access could not be set or removed", _CLUSTER
    ),
    Metric(
        "treeline_records_at_risk",
        "Records, at most, that no other cluster has yet, lost if it died",
        _CLUSTER,
    ),
    Metric("treeline_distributor_running", "1 if it runs", _EDGE),
    Metric("treeline_distributor_paused", "1 if somebody told it to wait", _EDGE),
    Metric(
        "treeline_distributor_wait_seconds", "For how long records wait there; none where that is not known", _EDGE
    ),
    Metric("treeline_distributor_objective_seconds", "For how long they may: the setting"),
    Metric("treeline_losses_unacknowledged", "Ranges of lost records that nobody has taken note of", _EDGE[::2]),
    Metric(
        "treeline_possible_losses_unacknowledged",
        "Partitions of topics made anew where records may be lost, none is known to be, and nobody has taken note",
        _EDGE[::2],
    ),
    Metric("treeline_set_aside_waiting", "Records that were set aside and not replayed", _EDGE[::2]),
    Metric(
        "treeline_replication_by_stream",
        "1 if copying is told by stream; 0 if there are too many, and `stream` is empty",
    ),
    Metric("treeline_replication_records_total", "Records copied", _STREAM),
    Metric("treeline_replication_bytes_total", "Bytes copied: keys, values and headers", _STREAM),
    Metric(
        "treeline_replication_offsets_total",
        "Offsets of the source that were passed: records copied, those that need no copy, and markers",
        _STREAM,
    ),
    Metric(
        "treeline_replication_lag_records",
        "Offsets not passed yet: records to copy, those that need no copy, and markers",
        _STREAM,
    ),
    Metric(
        "treeline_replication_record_age_seconds",
        "How old the newest record passed is, while others wait; 0 while none does",
        _STREAM,
    ),
    Metric(
        "treeline_replication_latency_seconds",
        "Of the last transaction, for a minute: from the time of its oldest record until its copy was committed",
        _STREAM,
    ),
    Metric(
        "treeline_checkpoint_age_seconds",
        "For how long records were copied since a checkpoint of the source's log was written",
        _STREAM,
    ),
    Metric("treeline_schema_holds_total", "Times that a partition waited for a schema", _EDGE),
    Metric("treeline_schema_held_seconds_total", "Time that partitions waited for schemas", _EDGE),
    Metric("treeline_schema_waits_run_out_total", "Waits after which records went before their schema", _EDGE),
    Metric("treeline_schema_target_running", "1 if schemas come without conflicts", _CLUSTER),
    Metric("treeline_schema_behind_records", "Schema records still to be written there", _CLUSTER),
    Metric("treeline_schema_unreadable_records", "Records of the schemas topic that do not count", _CLUSTER),
    Metric("treeline_schema_topic_read", "1 if it was read and its cluster answers", _CLUSTER),
    Metric(
        "treeline_switch_phase",
        "1 for the phase in which a switch is that has not ended",
        ("switch", "source", "target", "mode", "phase"),
    ),
    Metric("treeline_webhook_deliveries", "Deliveries that are kept, by state", ("webhook", "state")),
)
METRICS: Mapping[str, Metric] = {each.name: each for each in _ALL}


def family(name: str) -> Family:
    """An empty family of a metric that is described here."""
    return METRICS[name].family()
