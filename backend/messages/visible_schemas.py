"""Schemas by id, as one tenant sees them on one cluster.

Any producer can write any id into a record. Decoding with a schema of another tenant would show it, so an id is
known only if the registry would give its schema to the tenant of the stream, whoever asks.
"""

from __future__ import annotations

import contextlib
import time
from functools import cached_property
from typing import Any, Protocol

from backend.domain.access.access import Caller, Membership, Role
from backend.domain.base.errors import ClusterUnreachable
from backend.kafka.base.errors import KafkaCallFailed
from backend.messages.decoder_schemas import SchemaText
from backend.messages.facts import MessageFacts
from backend.queries.schemas.subject_owners import RegistryTenants
from backend.registry.access import Scope, scope_of
from backend.registry.catalog import Catalog
from backend.registry.directory import Directory, Registry
from backend.registry.mirror import Mirror
from backend.registry.parsing import referenced
from backend.registry.refusals import RegistryError

WAIT_SECONDS = 2.0
"""Seconds in which the schemas topic is read on for an id that is not known yet."""
UNKNOWN_SECONDS = 5.0
"""Seconds for which an unknown id is not looked up again: a live tail may last for hours."""
_POLL_SECONDS = 0.02


class Owners(Protocol):
    """Source of the owners of subjects; `backend.registry.access.Access` implements it."""

    def tenants(self) -> RegistryTenants:
        """Return the owners of subjects, as of now. Raises DatabaseUnavailable."""


class Registries(Protocol):
    """The schema registries that this process serves; `backend.registry.app.Registries` implements it."""

    @property
    def directory(self) -> Directory:
        """Return the registries by cluster."""

    @property
    def access(self) -> Owners:
        """Return the source of owners."""


class VisibleSchemas:
    """Schemas that one tenant sees on one cluster, for one request or live tail; threads must not share it."""

    def __init__(self, registries: Registries | None, cluster: str, tenant: str) -> None:
        """Build the view. Without registries, as in a process that serves none, no id is known."""
        self._registries, self._cluster = registries, cluster
        # Members see what a tenant sees, and no more.
        self._caller = Caller(name=tenant, role=Role.TENANT, tenants={tenant: Membership.MEMBER})
        self._known: dict[int, SchemaText] = {}
        self._unknown: set[int] = set()
        self._forget_at = 0.0
        self._has_waited = False

    def __call__(self, schema_id: int) -> SchemaText | None:
        """Return the schema with an id; None if the tenant sees none, or it references one that is hidden."""
        if schema_id in self._known:
            return self._known[schema_id]
        if self._unknown and time.monotonic() >= self._forget_at:
            self._unknown.clear()
            self._has_waited = False
        if schema_id in self._unknown:
            return None
        found = self._find(schema_id)
        if found is not None:
            self._known[schema_id] = found
            return found
        if not self._unknown:
            self._forget_at = time.monotonic() + UNKNOWN_SECONDS
        self._unknown.add(schema_id)
        return None

    def _find(self, schema_id: int) -> SchemaText | None:
        if self._registry is None or self._scope is None:
            return None
        found = self._look_up(self._registry, self._scope, schema_id)
        if found is None and not self._has_waited:
            # Once for all unknown ids: any five bytes may look like an id.
            self._has_waited = True
            _read_on(self._registry.mirror)
            found = self._look_up(self._registry, self._scope, schema_id)
        return found

    def _look_up(self, registry: Registry, scope: Scope, schema_id: int) -> SchemaText | None:
        with registry.mirror.lock.reading():
            return _text(scope.visible(registry.mirror.catalog), schema_id)

    @cached_property
    def _registry(self) -> Registry | None:
        return None if self._registries is None else self._registries.directory.find(self._cluster)

    @cached_property
    def _scope(self) -> Scope | None:
        if self._registries is None:
            return None
        try:
            return scope_of(self._caller, self._cluster, self._registries.access.tenants())
        except RegistryError:
            return None  # the cluster has left the tree


def schemas_of(app: Any, facts: MessageFacts) -> VisibleSchemas:
    """Return the schemas for a stream's messages, from the registries that an application (Starlette) serves."""
    return VisibleSchemas(getattr(app.state, "registries", None), facts.cluster, facts.stream.tenant)


def _text(catalog: Catalog, schema_id: int) -> SchemaText | None:
    content = catalog.contents.get(schema_id)
    if content is None:
        return None
    try:
        references = referenced(catalog, content)
    except RegistryError:
        return None
    return SchemaText(content.kind, content.text, {each.name: each.text for each in references})


def _read_on(mirror: Mirror) -> None:
    """Wait for the schemas that are there by now: a record may be read before the schema of its id."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not mirror.ready and mirror.reason is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(KafkaCallFailed, ClusterUnreachable):
        mirror.read_on(max(_POLL_SECONDS, deadline - time.monotonic()))
