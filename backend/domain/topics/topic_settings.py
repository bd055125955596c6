"""Kafka's topic settings as data: their names and allowed values, and the ones that a stream's fields manage.

The table is the one that Kafka 4.1.1 prints for its documentation (`LogConfig.main` of the storage module), with
settings that 3.9 still has. A cluster of another version refuses unknown settings when the stream is applied
there, with its own message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.base.errors import FieldError

_INT, _LONG = 2**31 - 1, 2**63 - 1
_SHOWN = 200
RETENTION_BYTES = "retention.bytes"
TIMESTAMP_TYPE = "message.timestamp.type"
DELETE_ON_DISABLE = "remote.log.delete.on.disable"


@dataclass(frozen=True)
class WholeNumber:
    """A whole number within a range; values of `also` are allowed outside the range."""

    least: int
    most: int
    also: tuple[int, ...] = ()

    def canonical(self, text: str) -> str:
        """Return the value as Kafka shows it. Raises ValueError that states what is allowed."""
        allowed = f"from {self.least} to {self.most}" + "".join(f", or {other}" for other in self.also)
        try:
            number = int(text) if text.isascii() else None
        except ValueError:
            number = None
        if number is None or "_" in text or not (self.least <= number <= self.most or number in self.also):
            raise ValueError(f"must be a whole number {allowed}")
        return str(number)


@dataclass(frozen=True)
class Fraction:
    """A number from 0 to 1."""

    def canonical(self, text: str) -> str:
        """Return the value as Kafka shows it. Raises ValueError that states what is allowed."""
        try:
            number = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            raise ValueError("must be a number from 0 to 1")
        return str(number)


@dataclass(frozen=True)
class OneOf:
    """One of a list of words, case-sensitive."""

    words: tuple[str, ...]

    def canonical(self, text: str) -> str:
        """Return the value as Kafka shows it. Raises ValueError that states what is allowed."""
        if text not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}")
        return text


@dataclass(frozen=True)
class Switch:
    """A boolean: true or false."""

    def canonical(self, text: str) -> str:
        """Return the value as Kafka shows it. Raises ValueError that states what is allowed."""
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower()


_SWITCH = Switch()
_NOT_NEGATIVE = WholeNumber(0, _LONG)
_POSITIVE = WholeNumber(1, _LONG)

DECLARABLE: Mapping[str, WholeNumber | Fraction | OneOf | Switch] = {
    "compression.gzip.level": WholeNumber(1, 9, also=(-1,)),
    "compression.lz4.level": WholeNumber(1, 17),
    "compression.type": OneOf(("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
    "compression.zstd.level": WholeNumber(-131_072, 22),
    "delete.retention.ms": _NOT_NEGATIVE,
    "file.delete.delay.ms": _NOT_NEGATIVE,
    "flush.messages": _POSITIVE,
    "flush.ms": _NOT_NEGATIVE,
    "index.interval.bytes": WholeNumber(0, _INT),
    "local.retention.bytes": WholeNumber(-2, _LONG),
    "local.retention.ms": WholeNumber(-2, _LONG),
    "max.compaction.lag.ms": _POSITIVE,
    "message.downconversion.enable": _SWITCH,  # until 3.9
    "message.timestamp.after.max.ms": _NOT_NEGATIVE,
    "message.timestamp.before.max.ms": _NOT_NEGATIVE,
    "message.timestamp.difference.max.ms": _NOT_NEGATIVE,  # until 3.9
    TIMESTAMP_TYPE: OneOf(("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": Fraction(),
    "min.compaction.lag.ms": _NOT_NEGATIVE,
    "preallocate": _SWITCH,
    "remote.log.copy.disable": _SWITCH,
    DELETE_ON_DISABLE: _SWITCH,
    "remote.storage.enable": _SWITCH,
    RETENTION_BYTES: WholeNumber(-1, _LONG),
    "segment.bytes": WholeNumber(1_048_576, _INT),  # 3.9 takes less, which 4.0 and newer refuse (KIP-1030)
    "segment.index.bytes": WholeNumber(4, _INT),
    "segment.jitter.ms": _NOT_NEGATIVE,
    "segment.ms": _POSITIVE,
    "unclean.leader.election.enable": _SWITCH,
}
"""Settings that a stream's `config` accepts, and the allowed values of each."""

FIELD_OF: Mapping[str, str] = {
    "cleanup.policy": "cleanup_policy",
    "max.message.bytes": "max_message_bytes",
    "min.insync.replicas": "min_insync_replicas",
    "retention.ms": "retention_ms",
}
"""Settings that a field of the stream manages."""

NOT_A_DECLARATION: Mapping[str, str] = {
    "follower.replication.throttled.replicas": "placements set it while they move replicas",
    "leader.replication.throttled.replicas": "placements set it while they move replicas",
    "message.format.version": "brokers have ignored it since Kafka 3.0, and 4.0 removed it",
}
"""Settings that cannot be declared, with the reason."""

_NOT_ABOVE = (
    ("min.compaction.lag.ms", "max.compaction.lag.ms"),
    ("local.retention.bytes", RETENTION_BYTES),
    ("local.retention.ms", "retention.ms"),
)


def apart(own: Mapping[str, str]) -> dict[str, str]:
    """Return the own settings of a topic that no field of a stream manages, declarable or not."""
    managed = {*FIELD_OF, *NOT_A_DECLARATION, TIMESTAMP_TYPE}
    return {name: value for name, value in sorted(own.items()) if name not in managed}


def text_of(value: object) -> str:
    """Return a value of JSON or YAML in the form that Kafka writes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def canonical(config: Mapping[str, str]) -> dict[str, str]:
    """Return settings in the form that brokers show, so that equal settings compare as equal.

    Settings or values that cannot be declared stay unchanged.
    """
    found = {}
    for name, value in sorted(config.items()):
        try:
            found[name] = DECLARABLE[name].canonical(value.strip()) if name in DECLARABLE else value
        except ValueError:
            found[name] = value
    return found


def same_value(name: str, one: str, other: str | None) -> bool:
    """Compare two values of a setting; lists, such as `compact,delete`, as sets."""
    if other is None:
        return False
    if name == "cleanup.policy":
        return parts(one) == parts(other)
    return canonical({name: one}) == canonical({name: other})


def parts(listed: str) -> set[str]:
    """Return the entries of a list such as `compact,delete`."""
    return {part.strip() for part in listed.split(",")}


def retained_bytes(config: Mapping[str, str]) -> float:
    """Return the bytes of each partition that `retention.bytes` keeps; infinity if it is unset or no number."""
    value = canonical(config).get(RETENTION_BYTES, "-1")
    return int(value) if value.isdecimal() else math.inf


def config_errors(
    config: Mapping[str, str], *, cleanup_policy: str, retention_ms: int, distributed: bool
) -> list[FieldError]:
    """Return one error, with its pointer, for each entry of a stream's `config` that cannot be declared."""
    errors = []
    for name, value in sorted(config.items()):
        problem = undeclarable(name, value, distributed=distributed)
        if problem is not None:
            errors.append(FieldError(f"/config/{_pointer(name)}", problem))
    return errors or _contradictions(config, cleanup_policy, retention_ms)


def undeclarable(name: str, value: str, *, distributed: bool) -> str | None:
    """Return why a stream cannot declare a setting with this value; None if it can."""
    if name in FIELD_OF:
        return f"is managed by the stream's field {FIELD_OF[name]}; set that instead"
    if name in NOT_A_DECLARATION:
        return f"cannot be declared: {NOT_A_DECLARATION[name]}"
    if name not in DECLARABLE:
        near = [known for known in DECLARABLE if known.replace(".", "_") == name.replace("-", "_")]
        hint = f"; did you mean {near[0]}?" if near else "; those that can be declared: " + ", ".join(DECLARABLE)
        return f"is no topic setting of Kafka{hint}"
    if name == TIMESTAMP_TYPE and distributed:
        return (
            "is managed by the stream's field distributed: copies keep the time of their original, which takes "
            "CreateTime on every cluster; declare distributed: false to choose it"
        )
    try:
        DECLARABLE[name].canonical(value.strip())
    except ValueError as error:
        return f"{error}, not {value[:_SHOWN]!r}"
    return None


def _contradictions(config: Mapping[str, str], cleanup_policy: str, retention_ms: int) -> list[FieldError]:
    """Return errors for entries that are valid one by one, but that brokers refuse together."""
    errors = []
    for low, high in _NOT_ABOVE:
        bound = str(retention_ms) if high == "retention.ms" else config.get(high, "-1")
        if low in config and int(bound) >= 0 and int(config[low]) > int(bound):
            errors.append(FieldError(f"/config/{low}", f"{config[low]} is more than {high}, which is {bound}"))
    if config.get("remote.storage.enable", "").strip().lower() == "true" and "compact" in parts(cleanup_policy):
        errors.append(
            FieldError(
                "/config/remote.storage.enable",
                f"brokers have no remote storage for cleanup_policy {cleanup_policy}",
            )
        )
    return errors


def _pointer(name: str) -> str:
    return name[:_SHOWN].replace("~", "~0").replace("/", "~1")
