"""Every knob of Treeline: defaults < TOML < environment (TREELINE_*) < flags.

Each field's description gives unit and reason; docs/settings.md lists all of them (a test holds it).
"""

from __future__ import annotations

from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from backend.access_settings import AccessSettings
from backend.locations import PROJECT_ROOT as PROJECT_ROOT
from backend.locations import default_cache, settings_file


class Settings(AccessSettings):
    """Read once per process; see `settings()`."""

    model_config = SettingsConfigDict(env_prefix="TREELINE_", extra="ignore")

    home: Path = Field(Path(".treeline"), description="Folder of the local estate's state, logs and secrets.")
    cache: Path = Field(
        default_cache(),
        description="Folder for what estates share: Kafka's jars and, with Treeline from a wheel, the compiled "
        "record loop. The default is then `$XDG_CACHE_HOME/treeline`, or `~/.cache/treeline`.",
    )
    url: str | None = Field(None, description="Control plane that the CLI speaks to; unset: the local estate's.")
    token: SecretStr | None = Field(None, description="Bearer token for `url`; one without the other is refused.")
    context: str | None = Field(
        None,
        description="Context that the CLI takes its control plane from (`treeline context list`), before `url`; "
        "unset: `url`, else a `TREELINE_HOME` that the environment names, else the one in use, else the local "
        "estate's.",
    )
    kafka_password: SecretStr | None = Field(
        None,
        description="SASL password that `treeline verify` uses where the API shows ***; "
        "unset: the local estate's.",
    )
    database_url: str = Field(
        "postgresql+psycopg://127.0.0.1/treeline",
        description="PostgreSQL of the control plane, as the application's role.",
    )
    migration_database_url: str | None = Field(
        None, description="The same database as its owner, for migrations; unset: `database_url`."
    )
    celery_broker_url: str = Field("redis://127.0.0.1:6379/0", description="Redis or Valkey that carries nudges.")
    admin_token: SecretStr | None = Field(
        None, description="The admin's bearer token; unset: nobody can log in by token."
    )
    secrets_key: SecretStr | None = Field(
        None,
        description="Secret of 32 characters or more that seals passwords of applications; several by commas: the "
        "first seals, all open. Unset: applications get no credentials.",
    )

    registry_open: bool = Field(
        False,
        description="Serve the schema registries without a token to programs of this machine, by loopback "
        "addresses and not by a proxy: for a local estate, where it is set unless you do. Others need a token.",
    )
    schemas_topic: str = Field("_schemas", description="Topic, on each cluster, of its schema registry.")
    schema_wait_seconds: float = Field(
        10.0,
        ge=0,
        description="Seconds that a partition waits, at most and once for each schema, at a record whose schema "
        "its target does not have yet; then the record is copied before it. 0: nothing is waited for.",
    )

    copy_flags_header: str = Field("copy-flags", description="Name of the header that carries the copy flags.")
    copy_origin_header: str = Field("copy-origin", description="Name of the header that carries the origin.")
    origin_header: bool = Field(
        True, description="Write origins and route by them; false gives the plain copy flags of the document."
    )
    verify_stream: str = Field(
        "_treeline.verify", description="Internal stream, and topic on every cluster, of `treeline verify`."
    )
    spark_master: str = Field(
        "local[2]",
        description="Spark's master for offsets and placement: a cluster's, or threads of this machine.",
    )
    spark_heap_megabytes: int = Field(
        700,
        ge=500,
        description="Heap of the Spark driver; below 472 Spark refuses to start. A driver that runs out of it "
        "ends and is started again; raise it where the log of `worker:offsets` says OutOfMemoryError.",
    )
    offsets_every_seconds: float = Field(
        1.0,
        gt=0,
        description="Pause between two rounds of translating commits; none runs on Spark without commits.",
    )
    offsets_topic: str = Field(
        "_treeline.offset-timestamps",
        description="Internal stream, and topic on every cluster, that carries groups' progress.",
    )
    offsets_partitions: int = Field(4, ge=1, description="Partitions of the offsets topic.")
    offsets_renew_seconds: float = Field(
        86_400.0,
        gt=0,
        description="Applied offsets of idle groups are set again when they are so old; brokers forget them after "
        "`offsets.retention.minutes`, 7 days by default.",
    )
    verify_partitions: int = Field(4, ge=1, description="Partitions of the verify stream.")

    quarantine_topic: str = Field(
        "_treeline.quarantine", description="Topic, on each target, of the records that the target refused."
    )

    reconcile_seconds: float = Field(
        1.0, gt=0, description="Seconds between two runs of the reconcile loop; bounds how late a change is seen."
    )
    shift_seconds: float = Field(
        30.0,
        gt=0,
        description="Seconds that one Celery shift lasts; far below the visibility timeout, so that no live "
        "shift is delivered twice.",
    )
    visibility_timeout_seconds: int = Field(
        600, gt=0, description="Seconds after which Redis redelivers an unacknowledged nudge."
    )
    lease_ttl_seconds: float = Field(
        6.0,
        gt=0,
        description="Seconds a lease holds without renewal, by the database's clock; a dead worker's units "
        "move again after this and a restart, together below 15 s.",
    )
    lease_longest_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds that a lease holds at most, where renewals are late: a lease outlasts three gaps as "
        "long as the worst of late, so that an overloaded machine slows down instead of moving units around. "
        "Units of a machine that dies move after this at the latest, and as much again, where others are late.",
    )
    lease_renew_seconds: float = Field(
        1.0, gt=0, description="Seconds between renewals; several must fit into the lease's life."
    )
    partition_buckets: int = Field(
        2,
        ge=1,
        description="Fewest units that each distributor is cut into, by hash of stream and partition; the same "
        "for all processes. Transactional ids and position groups are named after them: another number is a "
        "change of routes, for which every leaf passes a barrier.",
    )
    partitions_per_bucket: int = Field(
        2000,
        ge=1,
        description="Partitions of a unit above which distributors are cut into twice as many; the same for all "
        "processes. Not without origins (`origin_header`), where units cannot take over from others.",
    )
    batch_records: int = Field(
        50000,
        ge=1,
        description="Most records of one transaction; without a backlog it holds what is there.",
    )
    record_loop: Literal["auto", "native", "python"] = Field(
        "auto",
        description="What moves records: the loop in C (native), the one in Python, or the one in C where it was "
        "built (auto).",
    )
    transaction_timeout_ms: int = Field(
        15000,
        ge=1000,
        le=15000,
        description="Milliseconds after which a target aborts an abandoned transaction, which until then holds "
        "up the target's readers.",
    )
    discovery_ttl_ms: int = Field(
        10_000,
        ge=1_000,
        le=600_000,
        description="Milliseconds after which a client asks discovery again. A switch waits for clients that were "
        "seen within three times as long.",
    )
    discovery_hold_ms: int = Field(
        15_000,
        ge=1_000,
        le=600_000,
        description="Milliseconds for which a client that was told to hold keeps still without hearing from "
        "discovery; then it goes on where it was, so that a control plane that died stops nobody.",
    )
    distributor_timeout_ms: int = Field(
        60_000,
        ge=0,
        le=86_400_000,
        description="Milliseconds that one hop of distribution is given by clients that nobody can tell whether "
        "their records have arrived: they wait as long times the hops before they go on elsewhere.",
    )
    distributor_objective_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds that records may wait at a distributor before they are copied, or found to need no "
        "copy: one at which they wait for longer is late, on the Tree page and for the alert "
        "TreelineReplicationSlow.",
    )
    switch_hold_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds for which a switch holds clients at most: one that has not moved them by then is "
        "taken back, with the clients, records or groups that it waited for in its reason.",
    )
    placement_spark_replicas: int = Field(
        300_000,
        ge=0,
        description="From so many replicas on a cluster's placement is computed on Spark, where that is "
        "installed; below, a process computes it without.",
    )
    placement_seconds: float = Field(
        3600.0,
        gt=0,
        description="Seconds that the computation of a placement may take.",
    )
    replication_look_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds between two looks at a cluster's leaders and replicas in sync; more for clusters of "
        "more than 10,000 partitions for each of them.",
    )
    past_every_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds between two looks at what is observed (offsets of groups, replication of clusters), "
        "which pages of an earlier position show; more where a look takes more than a fiftieth of that.",
    )
    past_hours: float = Field(
        168.0, gt=0, description="Hours for which is kept what looks saw. What is configured is kept for ever."
    )
    past_rows: int = Field(
        2_000_000,
        ge=1,
        description="Rows of the past that have ended, of offsets or of replication, beyond which the oldest go "
        "after the next look: some 400 bytes each, or as large as the health of a cluster.",
    )
    broker_settled_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds after which a broker that came without replicas has joined: several that come within "
        "that time are one change, for which one placement is proposed.",
    )
    replication_settings_seconds: float = Field(
        60.0,
        gt=0,
        description="Seconds after which the settings that replication is judged by are read again; more for "
        "clusters of more than 100 topics for each of them.",
    )
    route_epoch_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds after which the zone router's channel gets a new epoch: what is no longer needed "
        "goes from storage by whole epochs. None begins while no node of a router reports.",
    )
    route_fence_lag: int = Field(
        2,
        ge=1,
        description="Epochs that mains accept, the newest one among them: with 1 all that is on its way when a "
        "new one begins is refused, and written again.",
    )
    fetch_wait_max_ms: int = Field(
        500, ge=1, description="Milliseconds a broker waits for new records before it answers an empty fetch."
    )
    fetch_buffer_kbytes: int = Field(
        8192, ge=64, description="Kibibytes of fetched records a distributor shard holds at most."
    )
    probe_timeout_seconds: float = Field(
        5.0, gt=0, description="Seconds a cluster has to answer when it is added or looked at."
    )

    webhook_allowed_networks: str = Field(
        "",
        description="Networks beside the public ones that webhooks' receivers may be in, by commas, such as "
        "`10.20.0.0/16`. Empty: none, so that nobody who may name an address has the control plane call its "
        "neighbours.",
    )
    metrics_most_streams: int = Field(
        5000,
        ge=0,
        description="Pairs of stream and distributor up to which `/metrics` tells each by itself; above it, each "
        "distributor as a whole, since 100,000 pairs take seconds of every scrape.",
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port on which the API serves `/metrics` without a token, and nothing else; unset: only on "
        "its main port, with a token of a viewer. Metrics name tenants: let only Prometheus reach it.",
    )
    metrics_host: str = Field("127.0.0.1", description="Address that `metrics_port` is bound to.")
    metrics_keep_seconds: float = Field(
        5.0,
        ge=0,
        description="Seconds that `/metrics` tells the same of streams, so that not each of several Prometheus "
        "servers has them added up.",
    )
    otlp_endpoint: str | None = Field(
        None,
        description="Address that spans of requests go to by OTLP over HTTP, as `http://127.0.0.1:4318`; unset: "
        "to nobody.",
    )
    webhook_timeout_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds that a webhook's receiver has to take an event, from connecting to the status.",
    )
    webhook_retry_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds after which an event that a webhook's receiver did not take is sent again; twice "
        "as long after each further attempt, an hour at most.",
    )
    webhook_attempts: int = Field(
        16,
        ge=1,
        description="Attempts after which a webhook's delivery has failed and waits for somebody to retry it: "
        "with the usual delays about seven hours, longer than most receivers are away.",
    )

    @field_validator("webhook_allowed_networks")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        for each in filter(None, map(str.strip, value.split(","))):
            ip_network(each)
        return value

    @field_validator("home", "url", "token", "context", "otlp_endpoint", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any, info: ValidationInfo) -> Any:
        # `TREELINE_URL= treeline …` is how a shell takes a variable back for one command.
        return cls.model_fields[str(info.field_name)].default if value == "" else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


@cache
def settings() -> Settings:
    """The process's settings; the environment is read at the first call."""
    return Settings()
