"""Settings of a distributor: pause, rate limit, and compression of copies.

Part of event stream `tree-<name>`. Each setting has events of its own, so that the log tells what was changed, not
only that something was. A distributor that still exists in a new tree keeps its settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.domain.base.errors import FieldError
from backend.domain.base.event import Event
from backend.domain.base.limits import range_errors, refuse

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
SLOWEST_BYTES_PER_SECOND = 1_000
FASTEST_BYTES_PER_SECOND = 1_000_000_000_000

# --- events


@dataclass(frozen=True, kw_only=True)
class DistributorPaused(Event, name="DistributorPaused", version=1):
    """One distributor stops copying and keeps its position."""

    cluster: str
    level: int


@dataclass(frozen=True, kw_only=True)
class DistributorResumed(Event, name="DistributorResumed", version=1):
    """One distributor continues copying from where it was paused."""

    cluster: str
    level: int


@dataclass(frozen=True, kw_only=True)
class DistributorLimitChanged(Event, name="DistributorLimitChanged", version=1):
    """One distributor got another rate limit."""

    cluster: str
    level: int
    bytes_per_second: int | None
    """Maximum bytes a second of keys, values and headers of its copies, before compression; null means no
    limit."""


@dataclass(frozen=True, kw_only=True)
class DistributorCompressionChanged(Event, name="DistributorCompressionChanged", version=1):
    """One distributor compresses its copies with another codec."""

    cluster: str
    level: int
    compression: str
    """none, gzip, snappy, lz4 or zstd."""


SettingsEvent = DistributorPaused | DistributorResumed | DistributorLimitChanged | DistributorCompressionChanged
SETTINGS_EVENTS: tuple[type[Event], ...] = (
    DistributorPaused,
    DistributorResumed,
    DistributorLimitChanged,
    DistributorCompressionChanged,
)

# --- commands


@dataclass(frozen=True, kw_only=True)
class ChangeDistributor:
    """Change settings of (cluster, level); None keeps a setting, `clear_limit` removes the limit."""

    cluster: str
    level: int
    paused: bool | None = None
    bytes_per_second: int | None = None
    clear_limit: bool = False
    compression: str | None = None


# --- state


@dataclass(frozen=True, kw_only=True)
class DistributorSettings:
    """Settings of one distributor, with the defaults that apply before any event."""

    paused: bool = False
    bytes_per_second: int | None = None
    """Rate limit over all tasks of the distributor; None means no limit."""
    compression: str = "none"


DEFAULTS = DistributorSettings()

# --- decide


def decide(present: DistributorSettings, command: ChangeDistributor) -> Sequence[SettingsEvent]:
    """Return one event for each setting that changes. Raises ValueInvalid."""
    _check(command)
    place = {"cluster": command.cluster, "level": command.level}
    events: list[SettingsEvent] = []
    limit = None if command.clear_limit else command.bytes_per_second
    if (command.clear_limit or limit is not None) and limit != present.bytes_per_second:
        events.append(DistributorLimitChanged(**place, bytes_per_second=limit))  # type: ignore[arg-type]
    if command.compression is not None and command.compression != present.compression:
        events.append(DistributorCompressionChanged(**place, compression=command.compression))  # type: ignore[arg-type]
    # Last, so that a resumed distributor has its new limit before it copies.
    if command.paused is not None and command.paused != present.paused:
        events.append((DistributorPaused if command.paused else DistributorResumed)(**place))  # type: ignore[arg-type]
    return events


def _check(command: ChangeDistributor) -> None:
    errors: list[FieldError] = []
    if command.bytes_per_second is not None:
        bounds = (SLOWEST_BYTES_PER_SECOND, FASTEST_BYTES_PER_SECOND)
        errors += range_errors((("bytes_per_second", command.bytes_per_second, *bounds),))
    if command.compression is not None and command.compression not in COMPRESSIONS:
        errors.append(FieldError("/compression", f"must be one of {' | '.join(COMPRESSIONS)}"))
    refuse(errors)


# --- evolve


def evolve(state: DistributorSettings, event: SettingsEvent) -> DistributorSettings:
    """Return the settings after an event."""
    match event:
        case DistributorPaused():
            return replace(state, paused=True)
        case DistributorResumed():
            return replace(state, paused=False)
        case DistributorLimitChanged():
            return replace(state, bytes_per_second=event.bytes_per_second)
        case DistributorCompressionChanged():
            return replace(state, compression=event.compression)
