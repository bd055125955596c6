"""A catalog as a caller sees it who may not see all subjects: readers find nothing of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from backend.registry.catalog import Catalog, VersionKey
from backend.registry.records import Content, SchemaVersion

K = TypeVar("K")
V = TypeVar("V")


class VisibleCatalog(Catalog):
    """A read-only view, to use under the lock of the catalog behind it.

    Made for each request: it stores nothing.
    """

    def __init__(self, of: Catalog, sees: Callable[[str], bool]) -> None:
        """Build the view. `sees` tells which subjects are visible."""
        self._of, self._sees = of, sees

        def for_all_or_seen(subject: str | None) -> bool:
            return subject is None or sees(subject)

        self.subjects = cast(Any, _Filtered(of.subjects, sees, of.subjects.__getitem__))
        self.configs = cast(Any, _Filtered(of.configs, for_all_or_seen, of.configs.__getitem__))
        self.modes = cast(Any, _Filtered(of.modes, for_all_or_seen, of.modes.__getitem__))
        self.contents = cast(Any, _Filtered(of.contents, lambda each: bool(self.used_by(each)), self._content))

    @property
    def highest_id(self) -> int:  # type: ignore[override]
        """Return the highest visible id: the true one would reveal how much others do."""
        return max(self.contents, default=0)

    def _content(self, schema_id: int) -> Content:
        # References are those of a visible version, too.
        return self.used_by(schema_id)[0].content

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        return self._of.versions(subject, deleted=deleted) if self._sees(subject) else []

    def version(self, key: VersionKey) -> SchemaVersion | None:
        return self._of.version(key) if self._sees(key[0]) else None

    def id_of(self, content: Content) -> int | None:
        found = self._of.id_of(content)
        return found if found is not None and self.used_by(found) else None

    def used_by(self, schema_id: int) -> list[SchemaVersion]:
        return [each for each in self._of.used_by(schema_id) if self._sees(each.subject)]

    def referrers(self, key: VersionKey, *, deleted: bool = False) -> list[SchemaVersion]:
        return [each for each in self._of.referrers(key, deleted=deleted) if self._sees(each.subject)]


class _Filtered(Mapping[K, V]):
    def __init__(self, of: Mapping[K, V], sees: Callable[[K], bool], give: Callable[[K], V]) -> None:
        self._of, self._sees, self._give = of, sees, give

    def __getitem__(self, key: K) -> V:
        if key not in self._of or not self._sees(key):
            raise KeyError(key)
        return self._give(key)

    def __iter__(self) -> Iterator[K]:
        return (key for key in self._of if self._sees(key))

    def __len__(self) -> int:
        return sum(1 for _ in self)
