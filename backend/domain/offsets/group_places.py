"""Mapping of technical group names on a cluster back to the environment and the group's own name.

A cluster's group format, with an environment's names put in, has the group's own name between a prefix and a
suffix. Environments are found by their prefixes, so that ten thousand groups can be read among thousands of
environments. Formats may leave parts out, so several environments may claim a name; the streams that the group
reads then decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from backend.domain.names.names import group_name_problem
from backend.domain.names.readings import EnvironmentPlace, Reader

_GROUP = "{group}"


class GroupPlaces:
    """Reader of the group names of one cluster; it is replaced when environments or the format change."""

    def __init__(self, group_format: str, environments: Iterable[EnvironmentPlace]) -> None:
        self._format = group_format
        self._head = group_format.partition(_GROUP)[0]
        self._by_prefix: dict[str, list[EnvironmentPlace]] = defaultdict(list)
        for place in environments:
            self._by_prefix[self._prefix(place)].append(place)
        self._longest = max(map(len, self._by_prefix), default=0)
        self._readers: dict[EnvironmentPlace, Reader] = {}

    def read(self, name: str, streams: Collection[str]) -> tuple[str | None, str | None]:
        """Return (place, group) of a technical name; (None, None) if no environment claims it, or several do.

        `streams` are full names of streams that the group reads: of several environments, the one of a stream is
        meant.
        """
        found = {"/".join(place): group for place, group in self._readings(name)}
        if len(found) > 1:
            own = {stream.rpartition("/")[0] for stream in streams}
            found = {place: group for place, group in found.items() if place in own}
        return next(iter(found.items())) if len(found) == 1 else (None, None)

    def _readings(self, name: str) -> Iterator[tuple[EnvironmentPlace, str]]:
        for length in range(min(self._longest, len(name)) + 1):
            for place in self._by_prefix.get(name[:length], ()):
                reader = self._readers.get(place)
                if reader is None:
                    reader = self._readers[place] = Reader(self._format, "group", [place], {})
                found = reader.within(name)
                if found is not None and group_name_problem(found.stream) is None:
                    yield place, found.stream

    def _prefix(self, place: EnvironmentPlace) -> str:
        tenant, instance, environment = place
        return self._head.format(tenant=tenant, instance=instance, environment=environment)
