"""The sections of an estate file as Pydantic models, with their options and types."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from backend.domain.names.formats import DEFAULT_GROUP_FORMAT, DEFAULT_SUBJECT_FORMAT, DEFAULT_TOPIC_FORMAT
from backend.domain.topics.topic_settings import text_of

MOST_BROKERS = 9
# It goes into a properties file, where spaces, backslashes and non-ASCII characters would be changed.
ZONE_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def _as_kafka_writes(value: object) -> object:
    return text_of(value) if isinstance(value, bool | int | float) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SecuritySection(_Strict):
    sasl: Literal["SCRAM-SHA-512", "SCRAM-SHA-256"] = "SCRAM-SHA-512"
    acls: bool = False


class ClusterSection(_Strict):
    brokers: int = Field(1, ge=1, le=MOST_BROKERS)
    zone: str | None = Field(None, min_length=1)
    zones: list[str] | None = None
    topic_format: str = DEFAULT_TOPIC_FORMAT
    group_format: str = DEFAULT_GROUP_FORMAT
    subject_format: str = DEFAULT_SUBJECT_FORMAT
    security: SecuritySection | None = None
    listeners_via_proxy: bool = False
    replica_lag_time_max_ms: int = Field(30_000, ge=1_000)
    # Below the minimum a broker does not start; 31 GB is the maximum that a JVM addresses with short pointers.
    heap_mb: int | None = Field(None, ge=128, le=31 * 1024)


class StreamSection(_Strict):
    partitions: int = Field(1, ge=1)
    replication_factor: int | None = Field(None, ge=1)
    min_insync_replicas: int | None = Field(None, ge=1)
    retention_ms: int | None = Field(None, ge=-1)
    cleanup_policy: Literal["delete", "compact", "compact,delete"] | None = None
    max_message_bytes: int | None = Field(None, ge=1)
    distributed: bool = True
    config: dict[str, Annotated[str, BeforeValidator(_as_kafka_writes)]] = {}


class ApplicationSection(_Strict):
    groups: list[str] | None = None
    produces: list[str] = []
    consumes: list[str] = []
    producer_bytes_per_second: int | None = Field(None, ge=1)
    consumer_bytes_per_second: int | None = Field(None, ge=1)
    request_percentage: int | None = Field(None, ge=1)


class EnvironmentSection(_Strict):
    margin_seconds: int = Field(60, ge=0)
    offset_mode: Literal["margin", "exact"] = "margin"
    record_name_subjects: bool = True
    streams: dict[str, StreamSection] = {}
    applications: dict[str, ApplicationSection] = {}


class InstanceSection(_Strict):
    environments: dict[str, EnvironmentSection] = {}


class TenantSection(_Strict):
    instances: dict[str, InstanceSection] = {}


class EstateFile(_Strict):
    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)
    primary: str
    clusters: dict[str, ClusterSection] = Field(min_length=1)
    tree: Any
    tenants: dict[str, TenantSection] = {}
    zones: bool = False
