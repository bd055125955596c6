"""Catalogue of the API process's metrics by Prometheus name; docs, dashboard and alerts are tested against it."""

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
    """Name, description and labels of one metric. Counters end in `_total`; all others are gauges."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")

    def family(self) -> Family:
        """Return an empty family of samples, to be filled at a scrape."""
        if self.is_counter:
            return CounterMetricFamily(self.name.removesuffix("_total"), self.text, labels=self.labels)
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)


_ALL = (
    Metric("treeline_build_info", "Always 1; the label is the running version", ("version",)),
    Metric("treeline_event_log_position", "Position of the newest event"),
    Metric("treeline_projection_lag_events", "Events that the projection has not processed yet", ("projection",)),
    Metric(
        "treeline_lease_held",
        "1 if the lease is held; leases of distributor tasks are listed only while they run",
        ("lease",),
    ),
    Metric(
        "treeline_lease_fenced_total",
        "Times that a live worker found its lease taken by another worker",
        ("lease",),
    ),
    Metric("treeline_cluster_online", "1 if the cluster responds", _CLUSTER),
    Metric(
        "treeline_application_access_failed", "Applications whose access could not be set or removed", _CLUSTER
    ),
    Metric(
        "treeline_records_at_risk",
        "Upper bound of the records that exist on no other cluster and would be lost with this one",
        _CLUSTER,
    ),
    Metric("treeline_distributor_running", "1 if the distributor is running", _EDGE),
    Metric("treeline_distributor_paused", "1 if the distributor is paused by an operator", _EDGE),
    Metric(
        "treeline_distributor_wait_seconds",
        ("Time that records have been waiting at the distributor; absent where it is unknown"),
        _EDGE,
    ),
    Metric(
        "treeline_distributor_objective_seconds", ("Maximum time that records may wait at a distributor (setting)")
    ),
    Metric("treeline_losses_unacknowledged", "Ranges of lost records that have not been acknowledged", _EDGE[::2]),
    Metric(
        "treeline_possible_losses_unacknowledged",
        "Partitions of recreated topics with unacknowledged possible losses: records may be lost, none is "
        "known to be",
        _EDGE[::2],
    ),
    Metric("treeline_set_aside_waiting", "Dead-lettered records that have not been replayed", _EDGE[::2]),
    Metric(
        "treeline_replication_by_stream",
        "1 if replication metrics are reported per stream; 0 if there are too many streams, and `stream` is empty",
    ),
    Metric("treeline_replication_records_total", "Records copied", _STREAM),
    Metric("treeline_replication_bytes_total", "Bytes copied: keys, values and headers", _STREAM),
    Metric(
        "treeline_replication_offsets_total",
        "Source offsets processed: records copied, records that need no copy, and markers",
        _STREAM,
    ),
    Metric(
        "treeline_replication_lag_records",
        "Source offsets not processed yet: records to copy, records that need no copy, and markers",
        _STREAM,
    ),
    Metric(
        "treeline_replication_record_age_seconds",
        "Age of the newest processed record while others wait; 0 if none waits",
        _STREAM,
    ),
    Metric(
        "treeline_replication_latency_seconds",
        "Time from the oldest record of the last transaction to the commit of its copy, shown for a minute",
        _STREAM,
    ),
    Metric(
        "treeline_checkpoint_age_seconds",
        "Time for which records have been copied since the last checkpoint of the source's log",
        _STREAM,
    ),
    Metric("treeline_schema_holds_total", "Times that a partition waited for a schema", _EDGE),
    Metric("treeline_schema_held_seconds_total", "Time that partitions waited for schemas", _EDGE),
    Metric(
        "treeline_schema_waits_run_out_total",
        ("Waits that timed out, after which records were copied before their schema"),
        _EDGE,
    ),
    Metric("treeline_schema_target_running", "1 if schemas are replicated without conflicts", _CLUSTER),
    Metric("treeline_schema_behind_records", "Schema records still to be written to the cluster", _CLUSTER),
    Metric("treeline_schema_unreadable_records", "Ignored invalid records of the schemas topic", _CLUSTER),
    Metric(
        "treeline_schema_topic_read", ("1 if the schemas topic has been read and the cluster responds"), _CLUSTER
    ),
    Metric(
        "treeline_switch_phase",
        "1 for the current phase of a switch that is in progress",
        ("switch", "source", "target", "mode", "phase"),
    ),
    Metric("treeline_webhook_deliveries", "Stored deliveries by state", ("webhook", "state")),
)
METRICS: Mapping[str, Metric] = {each.name: each for each in _ALL}


def family(name: str) -> Family:
    """Return an empty family of samples for a metric of the catalogue."""
    return METRICS[name].family()
