"""All settings of Treeline: defaults < TOML < environment (TREELINE_*) < flags.

Each field's description states unit and reason; docs/settings.md lists all of them (a test makes sure).
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

from backend.locations import PROJECT_ROOT as PROJECT_ROOT
from backend.locations import default_cache, settings_file
from backend.observation_settings import ObservationSettings


class Settings(ObservationSettings):
    """Settings of the process, read once; see `settings()`."""

    model_config = SettingsConfigDict(env_prefix="TREELINE_", extra="ignore")

    home: Path = Field(Path(".treeline"), description="Folder for the local estate's state, logs and secrets.")
    cache: Path = Field(
        default_cache(),
        description="Folder that estates share: Kafka's jars and, if Treeline is installed from a wheel, "
        "the compiled record loop. The default is then `$XDG_CACHE_HOME/treeline`, or "
        "`~/.cache/treeline`.",
    )
    url: str | None = Field(None, description="URL of the control plane for the CLI; unset: the local estate's.")
    token: SecretStr | None = Field(None, description="Bearer token for `url`; set both or neither.")
    context: str | None = Field(
        None,
        description="Context from which the CLI takes its control plane (`treeline context list`); takes "
        "precedence over `url`. Unset: `url`, else a `TREELINE_HOME` from the environment, "
        "else the current context, else the local estate's.",
    )
    kafka_password: SecretStr | None = Field(
        None,
        description="SASL password that `treeline verify` uses where the API shows ***; unset: the local "
        "estate's.",
    )
    database_url: str = Field(
        "postgresql+psycopg://127.0.0.1/treeline",
        description="PostgreSQL URL of the control plane, as the application's role.",
    )
    migration_database_url: str | None = Field(
        None, description="The same database as its owner, for migrations; unset: `database_url`."
    )
    celery_broker_url: str = Field(
        "redis://127.0.0.1:6379/0", description="URL of Redis or Valkey, which carries Celery's messages."
    )
    admin_token: SecretStr | None = Field(
        None, description="The admin's bearer token; unset: login by this token is disabled."
    )
    secrets_key: SecretStr | None = Field(
        None,
        description="Secret of at least 32 characters that encrypts passwords of applications. Several, "
        "separated by commas, allow rotation: the first encrypts, all decrypt. Unset: "
        "applications get no credentials.",
    )

    registry_open: bool = Field(
        False,
        description="Serve the schema registries without a token to programs on this machine, that is, to"
        " loopback addresses not behind a proxy. Meant for a local estate, where it is on by "
        "default. Other clients need a token.",
    )
    schemas_topic: str = Field("_schemas", description="Topic of each cluster's schema registry.")
    schema_wait_seconds: float = Field(
        10.0,
        ge=0,
        description="Maximum seconds that a partition waits, once per schema, at a record whose schema "
        "its target does not have yet; then the record is copied before its schema. 0: do not"
        " wait.",
    )

    copy_flags_header: str = Field("copy-flags", description="Name of the header that carries the copy flags.")
    copy_origin_header: str = Field("copy-origin", description="Name of the header that carries the origin.")
    origin_header: bool = Field(
        True,
        description="Write origins and route by them; false: no origin is written, and copy flags alone decide.",
    )
    verify_stream: str = Field(
        "_treeline.verify", description="Internal stream of `treeline verify`, and its topic on every cluster."
    )
    spark_master: str = Field(
        "local[2]",
        description="Spark master for offset translation and placement: a cluster's URL, or threads of "
        "this machine.",
    )
    spark_heap_megabytes: int = Field(
        700,
        ge=500,
        description="Heap of the Spark driver; below 472 MiB Spark refuses to start. A driver that runs "
        "out of memory exits and is restarted; raise the heap if the log of `worker:offsets` "
        "shows OutOfMemoryError.",
    )
    offsets_every_seconds: float = Field(
        1.0,
        gt=0,
        description="Pause between two rounds of offset translation; a round without commits does not run"
        " on Spark.",
    )
    offsets_topic: str = Field(
        "_treeline.offset-timestamps",
        description="Internal stream that carries groups' progress, and its topic on every cluster.",
    )
    offsets_partitions: int = Field(4, ge=1, description="Partitions of the offsets topic.")
    offsets_renew_seconds: float = Field(
        86_400.0,
        gt=0,
        description="Age at which applied offsets of idle groups are committed again; brokers expire "
        "offsets after `offsets.retention.minutes`, 7 days by default.",
    )
    verify_partitions: int = Field(4, ge=1, description="Partitions of the verify stream.")

    quarantine_topic: str = Field(
        "_treeline.quarantine",
        description=("Dead letter topic on each target, for records that the target refused."),
    )

    reconcile_seconds: float = Field(
        1.0,
        gt=0,
        description=("Seconds between two runs of the reconcile loop; bounds how late a change is noticed."),
    )
    shift_seconds: float = Field(
        30.0,
        gt=0,
        description="Seconds that one worker session (a Celery task) lasts; far below the visibility "
        "timeout, so that no live session is delivered twice.",
    )
    visibility_timeout_seconds: int = Field(
        600, gt=0, description="Seconds after which Redis redelivers an unacknowledged Celery message."
    )
    lease_ttl_seconds: float = Field(
        6.0,
        gt=0,
        description="Seconds after which a lease expires without renewal, by the database's clock. A dead"
        " worker's tasks resume after this and a restart, together within 15 s.",
    )
    lease_longest_seconds: float = Field(
        60.0,
        gt=0,
        description="Maximum seconds that a lease lasts while renewals are late. A lease lasts three "
        "times the longest recent gap between renewals, so that an overloaded machine slows "
        "down instead of losing its tasks to others. If other renewals are late, tasks of a "
        "machine that dies resume after at most twice this time.",
    )
    lease_renew_seconds: float = Field(
        1.0, gt=0, description="Seconds between renewals of a lease; several must fit into its lifetime."
    )
    partition_buckets: int = Field(
        2,
        ge=1,
        description="Minimum number of tasks into which each distributor is divided, by hash of stream "
        "and partition; the same for all processes. Transactional ids and position groups are"
        " named after tasks: another number is a change of routes, for which every leaf "
        "passes a barrier.",
    )
    partitions_per_bucket: int = Field(
        2000,
        ge=1,
        description="Partitions per task above which a distributor is divided into twice as many tasks; "
        "the same for all processes. Has no effect without origins (`origin_header`), where "
        "tasks cannot take over from others.",
    )
    batch_records: int = Field(
        50000,
        ge=1,
        description="Maximum records per transaction; without a backlog a transaction holds the records at hand.",
    )
    record_loop: Literal["auto", "native", "python"] = Field(
        "auto",
        description="Implementation of the record loop: C (native), Python (python), or C if it was built (auto).",
    )
    transaction_timeout_ms: int = Field(
        15000,
        ge=1000,
        le=15000,
        description="Milliseconds after which a target aborts an abandoned transaction, which until then "
        "blocks the target's read_committed consumers.",
    )
    discovery_ttl_ms: int = Field(
        10_000,
        ge=1_000,
        le=600_000,
        description="Milliseconds after which a client polls discovery again. A switch waits for clients "
        "seen within three times this interval.",
    )
    discovery_hold_ms: int = Field(
        15_000,
        ge=1_000,
        le=600_000,
        description="Milliseconds for which a client on hold stays on hold without a response from "
        "discovery; then it resumes on its old cluster, so that a control plane that is down "
        "stops no client.",
    )
    distributor_timeout_ms: int = Field(
        60_000,
        ge=0,
        le=86_400_000,
        description="Milliseconds that clients allow for one hop of distribution when nothing can tell "
        "whether their records have arrived: before they resume on another cluster, they wait"
        " this time for each hop.",
    )
    distributor_objective_seconds: float = Field(
        60.0,
        gt=0,
        description="Objective: maximum seconds that records wait at a distributor before they are copied"
        " or found to need no copy. A distributor with a longer wait is late, on the Tree "
        "page and for the alert TreelineReplicationSlow.",
    )
    switch_hold_seconds: float = Field(
        60.0,
        gt=0,
        description="Maximum seconds for which a switch holds clients. A switch that has not moved them "
        "by then is rolled back; its reason lists the clients, records or groups that it "
        "waited for.",
    )
    placement_spark_replicas: int = Field(
        300_000,
        ge=0,
        description="Number of replicas from which a cluster's placement is computed on Spark, if Spark "
        "is installed; smaller placements are computed by a local process.",
    )
    placement_seconds: float = Field(
        3600.0,
        gt=0,
        description="Maximum seconds that the computation of a placement may take.",
    )
    broker_settled_seconds: float = Field(
        60.0,
        ge=0,
        description="Seconds after which a new broker without replicas counts as joined: several brokers "
        "that come within that time are one change, for which one placement is proposed.",
    )
    route_epoch_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds between epochs of the zone router's channel: objects that are no longer "
        "needed are deleted by whole epochs. No epoch begins while no node of a router "
        "reports.",
    )
    route_fence_lag: int = Field(
        2,
        ge=1,
        description="Number of newest epochs that mains accept. With 1, everything in flight when an "
        "epoch begins is refused and written again.",
    )
    fetch_wait_max_ms: int = Field(
        500, ge=1, description="Milliseconds a broker waits for new records before it answers an empty fetch."
    )
    fetch_buffer_kbytes: int = Field(
        8192, ge=64, description="Maximum kibibytes of fetched records that a distributor's session holds."
    )
    probe_timeout_seconds: float = Field(
        5.0, gt=0, description="Seconds within which a cluster must respond when it is added or probed."
    )

    webhook_allowed_networks: str = Field(
        "",
        description="Networks, separated by commas, that receivers of webhooks may be in besides public "
        "ones, such as `10.20.0.0/16`. Empty: none, so that users who can set an address "
        "cannot make the control plane call internal services.",
    )
    metrics_most_streams: int = Field(
        5000,
        ge=0,
        description="Maximum pairs of stream and distributor that `/metrics` reports one by one; above "
        "it, metrics are aggregated per distributor, since 100,000 pairs take seconds of "
        "every scrape.",
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port on which the API serves `/metrics` without a token, and nothing else; unset: "
        "only on its main port, with a viewer's token. Metrics contain names of tenants: "
        "restrict the port to Prometheus.",
    )
    metrics_host: str = Field("127.0.0.1", description="Address that `metrics_port` binds to.")
    metrics_keep_seconds: float = Field(
        5.0,
        ge=0,
        description="Seconds for which `/metrics` caches stream metrics, so that several Prometheus "
        "servers do not each trigger the aggregation.",
    )
    otlp_endpoint: str | None = Field(
        None,
        description="OTLP/HTTP endpoint for spans of requests, such as `http://127.0.0.1:4318`; unset: "
        "spans are not exported.",
    )
    webhook_timeout_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds within which a webhook's receiver must accept an event, from connecting to "
        "the status.",
    )
    webhook_retry_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds after which an event that a webhook's receiver did not accept is sent again;"
        " the delay doubles with each attempt, up to an hour.",
    )
    webhook_attempts: int = Field(
        16,
        ge=1,
        description="Attempts after which a webhook's delivery has failed and waits for a manual retry: "
        "with the default delays about seven hours, longer than most receivers are down.",
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
        # `TREELINE_URL= treeline …` is how a shell unsets a variable for one command.
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
    """Return the process's settings; the environment is read at the first call."""
    return Settings()
