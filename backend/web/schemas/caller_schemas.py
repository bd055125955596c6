"""Schemas of the tree's clusters as one caller may see and change them, by the registries' own rules.

A page queries a registry as a client of its API does (`backend.registry.calls.Call`); only the wording differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from backend.domain.access.access import Caller
from backend.domain.base.errors import (
    ClusterSilent,
    DomainError,
    FieldError,
    NotAllowed,
    NotFound,
    StateConflict,
    ValueInvalid,
)
from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import Subjects
from backend.queries.schemas.schemas import WantedSchemas, wanted_schemas
from backend.queries.schemas.subject_owners import RegistryTenants
from backend.registry import refusals
from backend.registry.access import Scope, scope_of
from backend.registry.calls import Call
from backend.registry.catalog import Catalog
from backend.registry.directory import Directory
from backend.registry.records import SchemaVersion, dump_json
from backend.registry.refusals import RegistryError
from backend.web.frame.past_observation import milliseconds_of, requested_observation
from backend.web.frame.requested_position import Past
from backend.web.frame.services import ConsoleServices, Registries


@dataclass(frozen=True)
class Schemas:
    """The primary, the clusters with schemas, and the caller's view of them."""

    caller: Caller
    wanted: WantedSchemas
    directory: Directory
    tenants: RegistryTenants
    until_ms: float = inf
    """Moment of an earlier position, in milliseconds; schemas that exist now are shown as far as they existed
    then."""

    @property
    def primary(self) -> str:
        return self.wanted.primary

    @cached_property
    def declared(self) -> frozenset[StreamName]:
        """Return the streams that exist."""
        return frozenset(self.wanted.streams)

    @cached_property
    def _by_format(self) -> dict[str, Subjects]:
        return {}

    def scope(self, cluster: str) -> Scope:
        """Return the caller's scope on a cluster. Raises NotFound for a cluster that is not in the tree."""
        if cluster in self.wanted.leaves:
            try:
                return scope_of(self.caller, cluster, self.tenants)
            except RegistryError:
                # It left the tree just now.
                pass
        raise NotFound(f"there is no cluster {cluster[:60]!r} in the tree")

    def call(self, cluster: str, body: dict[str, Any] | None = None) -> Call:
        """Build a request to a cluster's registry.

        Raises NotFound; ClusterSilent until its schemas were read once.
        """
        scope = self.scope(cluster)
        registry = self.directory.find(cluster)
        if registry is None and self.until_ms < inf:
            raise ClusterSilent(f"{cluster} was removed meanwhile, or its schemas have not been read yet")
        if registry is None or not registry.mirror.ready:
            why = (registry.mirror.reason if registry is not None else None) or "reading is in progress"
            raise ClusterSilent(
                f"the schemas of {cluster} have not been read yet: {why}. Reload the page in a moment"
            )
        return Call(registry, "/registries", {}, b"" if body is None else dump_json(body), scope)

    def versions(self, catalog: Catalog, subject: str) -> list[SchemaVersion]:
        """Return a subject's versions, the oldest first."""
        return [each for each in catalog.versions(subject, deleted=True) if each.was_there(self.until_ms)]

    def stream_of(self, cluster: str, subject: str) -> tuple[StreamName | None, bool]:
        """Return the stream that a subject follows or followed, and whether a stream of that name still exists."""
        stream = self.scope(cluster).stream_of(subject)
        return stream, stream in self.declared

    def technical_name(self, cluster: str, stream: StreamName) -> str:
        """Return the beginning of the names of a stream's subjects on a cluster."""
        return technical_name(self.wanted.leaves[cluster].subject_format, stream)

    def translated(self, cluster: str, subject: str) -> dict[str, str]:
        """Return the subject's name on every cluster, its own included."""
        found = self._subjects_of(self.wanted.leaves[cluster].subject_format).parts(subject)
        if found is None:
            return dict.fromkeys(self.wanted.leaves, subject)
        stream, rest = found
        return {
            name: technical_name(leaf.subject_format, stream) + rest for name, leaf in self.wanted.leaves.items()
        }

    def _subjects_of(self, subject_format: str) -> Subjects:
        if subject_format not in self._by_format:
            self._by_format[subject_format] = Subjects(subject_format, self.wanted.streams)
        return self._by_format[subject_format]


def schemas_of(services: ConsoleServices, registries: Registries, caller: Caller) -> Schemas | None:
    """Return the caller's view; None while there is no tree."""
    return schemas_then(services, registries, caller, None)[0]


def schemas_then(
    services: ConsoleServices, registries: Registries, caller: Caller, at: str | None
) -> tuple[Schemas | None, Past | None]:
    """Return the caller's view at the requested position, and the page's note about the position.

    The view covers schemas that the caller may see now; None if there was no tree yet.
    """
    with services.reading() as connection:
        position, past = requested_observation(connection, caller, at)
        wanted = wanted_schemas(connection, position)
        until_ms = inf if position is None else milliseconds_of(connection, position)
    if wanted is None or not wanted.leaves:
        return None, past
    # It uses a connection of its own, and none is held meanwhile.
    return Schemas(caller, wanted, registries.directory, registries.access.tenants(), until_ms), past


def as_said(refusal: RegistryError, field: str) -> DomainError:
    """Return a registry's refusal as an error at a field of a form."""
    if refusal.status >= 500:
        return ClusterSilent(refusal.message)
    kinds = {404: NotFound, 403: StateConflict, 409: StateConflict, 422: ValueInvalid}
    kind = NotAllowed if refusal.code == refusals.NOT_ALLOWED else kinds.get(refusal.status, ValueInvalid)
    return kind(refusal.message, (FieldError(f"/{field}", refusal.message),))
