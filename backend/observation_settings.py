"""Settings of what workers observe, and of how long its history is kept; part of `settings.py`."""

from __future__ import annotations

from pydantic import Field

from backend.access_settings import AccessSettings


class ObservationSettings(AccessSettings):
    """Settings of what workers observe; a part of `Settings`."""

    replication_look_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds between two polls of a cluster's leaders and in-sync replicas; on clusters "
        "of more than 10,000 partitions, this much for each 10,000.",
    )
    groups_look_seconds: float = Field(
        15.0,
        gt=0,
        description="Seconds between two observations of a cluster's consumer groups; longer on clusters "
        "of many groups, so that observations take at most a twentieth of a processor's time.",
    )
    groups_most: int = Field(
        20_000,
        ge=1,
        description="Maximum consumer groups of one cluster that are observed, the first by name.",
    )
    past_every_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds between two snapshots of observed state (offsets of groups, replication of "
        "clusters), which pages of an earlier position show; longer if a snapshot takes more "
        "than a fiftieth of that.",
    )
    past_hours: float = Field(
        168.0,
        gt=0,
        description=("Retention of snapshots of observed state, in hours. Configuration is kept for ever."),
    )
    past_rows: int = Field(
        2_000_000,
        ge=1,
        description="Maximum ended rows of past offsets or replication state; the oldest rows beyond it "
        "are deleted after the next snapshot. A row takes some 400 bytes, or the size of a "
        "cluster's health.",
    )
    history_minute_hours: float = Field(
        25.0,
        ge=1,
        description="Retention of the samples that are taken every minute for charts, in hours: a day, and an "
        "hour in which the samples of ten minutes are computed from them. A sample takes some 5 bytes.",
    )
    history_hours: float = Field(
        192.0,
        ge=1,
        description="Retention of samples of ten minutes for charts, in hours: a week, and a day to compare "
        "its first one with.",
    )
    history_most_series: int = Field(
        50_000,
        ge=100,
        description="Maximum number of series (one metric of one distributor, group, cluster, broker or pair of "
        "zones) whose history is kept. Groups come last, those with the largest lag first; a "
        "series takes some 14 kB.",
    )
    replication_settings_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds after which the topic and broker settings that replication is judged by are "
        "read again; on clusters of more than 100 topics, this much for each 100.",
    )
