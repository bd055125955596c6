"""Event stream `tenant-<name>`: a tenant, its instances, their environments, and the streams in these.

An instance names its tree, an environment belongs to an instance, a stream to an environment. The events of
streams are in `stream.py`, the commands and their decisions in `tenant_commands.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from backend.domain.base.event import Event
from backend.domain.tenants.stream import Stream, StreamEvent, evolve_stream

DEFAULT_MARGIN_SECONDS = 60
MARGIN, EXACT = OFFSET_MODES = ("margin", "exact")
DEFAULT_OFFSET_MODE = MARGIN

# --- events


@dataclass(frozen=True, kw_only=True)
class TenantCreated(Event, name="TenantCreated", version=1):
    """A tenant was created."""

    tenant: str


@dataclass(frozen=True, kw_only=True)
class InstanceCreated(Event, name="InstanceCreated", version=1):
    """The tenant has a new instance, on a tree."""

    tenant: str
    instance: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentCreated(Event, name="EnvironmentCreated", version=2):
    """The instance has a new environment."""

    tenant: str
    instance: str
    environment: str
    margin_seconds: int
    """Margin that is subtracted from a committed offset's timestamp before it is translated for another cluster.
    """
    offset_mode: str
    """`margin` or `exact`: how a group's offset is translated to another cluster."""
    record_name_subjects: bool
    """True if the tenant may use subjects by record name, which all tenants share."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentChanged(Event, name="EnvironmentChanged", version=2):
    """The environment's settings have changed."""

    tenant: str
    instance: str
    environment: str
    margin_seconds: int
    offset_mode: str
    record_name_subjects: bool


TenantEvent = TenantCreated | InstanceCreated | EnvironmentCreated | EnvironmentChanged | StreamEvent

# --- state


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment with its streams, including deleted ones."""

    margin_seconds: int
    offset_mode: str
    record_name_subjects: bool
    streams: Mapping[str, Stream] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance with its environments."""

    tree: str
    environments: Mapping[str, Environment] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant as its events left it."""

    name: str
    instances: Mapping[str, Instance] = field(default_factory=dict)


INITIAL: Tenant | None = None

# --- evolve


def evolve(state: Tenant | None, event: Event) -> Tenant | None:
    """Return the state after an event; an event that does not apply leaves the state unchanged."""
    if isinstance(event, TenantCreated):
        return Tenant(name=event.tenant)
    if state is None:
        return None
    match event:
        case InstanceCreated():
            return replace(state, instances={**state.instances, event.instance: Instance(tree=event.tree)})
        case EnvironmentCreated() | EnvironmentChanged():
            return _set_environment(state, event)
        case _:
            return _set_stream(state, event) if isinstance(event, StreamEvent) else state


def _set_environment(state: Tenant, event: EnvironmentCreated | EnvironmentChanged) -> Tenant:
    instance = state.instances.get(event.instance)
    if instance is None:
        return state
    before = instance.environments.get(event.environment)
    environment = Environment(
        margin_seconds=event.margin_seconds,
        offset_mode=event.offset_mode,
        record_name_subjects=event.record_name_subjects,
        streams=before.streams if before else {},
    )
    changed = replace(instance, environments={**instance.environments, event.environment: environment})
    return replace(state, instances={**state.instances, event.instance: changed})


def _set_stream(state: Tenant, event: StreamEvent) -> Tenant:
    instance = state.instances.get(event.instance)
    environment = instance.environments.get(event.environment) if instance else None
    if instance is None or environment is None:
        return state
    stream = evolve_stream(environment.streams.get(event.stream), event)
    if stream is None:
        return state
    environment = replace(environment, streams={**environment.streams, event.stream: stream})
    instance = replace(instance, environments={**instance.environments, event.environment: environment})
    return replace(state, instances={**state.instances, event.instance: instance})
