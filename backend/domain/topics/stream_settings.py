"""Settings that a stream declares for its topics, and the ranges that Kafka allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.domain.base.errors import FieldError
from backend.domain.base.limits import range_errors, refuse
from backend.domain.base.words import lasting
from backend.domain.topics.topic_settings import DELETE_ON_DISABLE, canonical, config_errors, retained_bytes

DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000  # Kafka's own default
CLEANUP_POLICIES = ("delete", "compact", "compact,delete")
MOST_PARTITIONS = 10_000
INTERNAL_REPLICAS = 3
"""Declared replicas of internal streams, on a cluster with enough brokers."""
MOST_REPLICAS = 32_767  # Kafka carries the factor in 16 bits
CLUSTER_DEFAULT = "default"
"""Value in place of a replication factor or a minimum: it is not declared, and each cluster's default applies."""
LONGEST_MS = 2**63 - 1
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588  # Kafka's own default of max.message.bytes
LARGEST_MESSAGE_BYTES = 64 * 1024 * 1024 - 1024
"""A copy with our headers still fits into the 64 MiB that a distributor's producer accepts."""


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Settings of one stream, the same on every cluster."""

    partitions: int = 1
    replication_factor: int | None = None
    """Declared replication factor. A cluster with fewer brokers gets as many replicas as brokers; existing topics
    change only by placements. None: each cluster's default."""
    min_insync_replicas: int | None = None
    """Declared minimum; None: each cluster's default."""
    retention_ms: int = DEFAULT_RETENTION_MS
    """Retention in milliseconds; -1 keeps records for ever."""
    cleanup_policy: str = "delete"
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    """Largest batch of records that a producer may send; topics get extra room for our headers."""
    distributed: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    """Other Kafka settings of the topics, by Kafka's names (`topic_settings.DECLARABLE`)."""


def removed_by(before: StreamSettings, after: StreamSettings) -> str:
    """Describe the records that Kafka removes when settings change from `before` to `after`; "" if none."""
    kept, lost = _kept_ms(before), []
    if "compact" in after.cleanup_policy and "compact" not in before.cleanup_policy:
        lost.append("records that have a later one with the same key")
    if _kept_ms(after) < kept:
        lost.append(f"records older than {lasting(after.retention_ms)}")
    if _kept_bytes(after) < _kept_bytes(before):
        lost.append(f"the oldest records of each partition beyond {int(_kept_bytes(after)):,} bytes")
    deletes_remote = [canonical(each.config).get(DELETE_ON_DISABLE) == "true" for each in (before, after)]
    if deletes_remote == [False, True]:
        lost.append("records in remote storage once that is switched off")
    return " and ".join(lost)


def _kept_ms(settings: StreamSettings) -> float:
    deletes = "delete" in settings.cleanup_policy and settings.retention_ms >= 0
    return settings.retention_ms if deletes else math.inf


def _kept_bytes(settings: StreamSettings) -> float:
    return retained_bytes(settings.config) if "delete" in settings.cleanup_policy else math.inf


def check_settings(settings: StreamSettings) -> None:
    """Raise ValueInvalid with one FieldError for every setting outside its range."""
    errors = range_errors(
        (
            ("partitions", settings.partitions, 1, MOST_PARTITIONS),
            ("replication_factor", _declared(settings.replication_factor), 1, MOST_REPLICAS),
            ("min_insync_replicas", _declared(settings.min_insync_replicas), 1, MOST_REPLICAS),
            ("retention_ms", settings.retention_ms, -1, LONGEST_MS),
            ("max_message_bytes", settings.max_message_bytes, 1, LARGEST_MESSAGE_BYTES),
        )
    )
    factor, minimum = settings.replication_factor, settings.min_insync_replicas
    if factor is not None and minimum is not None and minimum > factor >= 1:
        too_many = f"{minimum} is more than the factor {factor}"
        errors.append(FieldError("/min_insync_replicas", f"{too_many}: nothing could ever be produced"))
    if settings.cleanup_policy not in CLEANUP_POLICIES:
        errors.append(FieldError("/cleanup_policy", f"must be one of {' | '.join(CLEANUP_POLICIES)}"))
    errors += config_errors(
        settings.config,
        cleanup_policy=settings.cleanup_policy,
        retention_ms=settings.retention_ms,
        distributed=settings.distributed,
    )
    refuse(errors)


def _declared(number: int | None) -> int:
    return 1 if number is None else number
