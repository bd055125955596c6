"""Subjects of the primary's schema registry by words of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.access.access import Caller
from backend.queries.tree.trees import get_tree
from backend.registry.access import Scope, scope_of
from backend.registry.directory import Registry
from backend.registry.refusals import RegistryError
from backend.web.frame.services import ConsoleServices, Registries


@dataclass(frozen=True)
class SchemaNames:
    """The subjects that a caller may see, as far as the primary's schemas have been read."""

    cluster: str
    registry: Registry
    scope: Scope

    def find(self, words: Sequence[str], most: int) -> list[str]:
        """Return subjects with all words in their names: those beginning with the first word before others."""
        typed = [word.lower() for word in words]
        with self.registry.mirror.lock.reading():
            catalog = self.registry.mirror.catalog
            named = [name for name in catalog.subjects if all(word in name.lower() for word in typed)]
            seen = [name for name in named if self.scope.sees(name) and catalog.versions(name)]
        first = typed[0] if typed else ""
        return sorted(seen, key=lambda name: (not name.lower().startswith(first), len(name), name))[:most]


def schema_names(services: ConsoleServices, registries: Registries, caller: Caller) -> SchemaNames | None:
    """Return the subjects; None while there is no tree, or no schemas have been read.

    The registries use a connection of their own: call it before another one is opened.
    """
    with services.reading() as connection:
        tree = get_tree(connection)
    registry = None if tree is None else registries.directory.find(tree.primary_cluster)
    if tree is None or registry is None or not registry.mirror.ready:
        return None
    try:
        scope = scope_of(caller, tree.primary_cluster, registries.access.tenants())
    except RegistryError:
        # The cluster left the tree just now.
        return None
    return SchemaNames(tree.primary_cluster, registry, scope)
