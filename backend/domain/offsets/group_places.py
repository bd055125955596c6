"""Mapping of technical group names on a cluster back to the environment and the group's own name.

A cluster's group format, with an environment's names put in, has the group's own name between a prefix and a
suffix. Environments are found by both, so that ten thousand groups can be read among thousands of environments.
Formats may leave parts out, so several environments may claim a name; the streams that the group reads then
decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from backend.domain.names.names import group_name_problem
from backend.domain.names.readings import EnvironmentPlace, Reader

_GROUP = "{group}"


@dataclass(frozen=True)
class _Pattern:
    """Environments whose groups have the same technical names."""

    group_format: str
    environments: Sequence[EnvironmentPlace]

    @cached_property
    def places(self) -> frozenset[str]:
        """Return `tenant/instance/environment` of each."""
        return frozenset(map("/".join, self.environments))

    @cached_property
    def reader(self) -> Reader:
        """Return the reader of these names, which are those of any of the environments."""
        return Reader(self.group_format, "group", self.environments[:1], {})


class GroupPlaces:
    """Reader of the group names of one cluster; it is replaced when environments or the format change."""

    def __init__(self, group_format: str, environments: Iterable[EnvironmentPlace]) -> None:
        by_name: dict[str, list[EnvironmentPlace]] = defaultdict(list)
        for place in environments:
            tenant, instance, environment = place
            name = group_format.format(tenant=tenant, instance=instance, environment=environment, group=_GROUP)
            by_name[name].append(place)
        # Prefix -> suffix -> patterns. Several patterns have both if the format has the group twice.
        self._patterns: dict[str, dict[str, list[_Pattern]]] = defaultdict(lambda: defaultdict(list))
        for name, places in by_name.items():
            pattern = _Pattern(group_format, places)
            self._patterns[name.partition(_GROUP)[0]][name.rpartition(_GROUP)[2]].append(pattern)
        self._longest = max(map(len, self._patterns), default=0)
        self._suffix_lengths = {
            prefix: sorted(set(map(len, by_suffix))) for prefix, by_suffix in self._patterns.items()
        }

    def read(self, name: str, streams: Collection[str]) -> tuple[str | None, str | None]:
        """Return (place, group) of a technical name; (None, None) if no environment claims it, or several do.

        `streams` are full names of streams that the group reads: of several environments, the one of a stream is
        meant.
        """
        found = list(self._readings(name))
        if sum(len(places) for places, _ in found) > 1:
            own = {stream.rpartition("/")[0] for stream in streams}
            found = [(places & own, group) for places, group in found]
        claims = [(place, group) for places, group in found for place in places]
        return claims[0] if len(claims) == 1 else (None, None)

    def _readings(self, name: str) -> Iterator[tuple[frozenset[str], str]]:
        for length in range(min(self._longest, len(name)) + 1):
            prefix = name[:length]
            for suffix_length in self._suffix_lengths.get(prefix, ()):
                suffix = name[max(0, len(name) - suffix_length) :]
                for pattern in self._patterns[prefix].get(suffix, ()):
                    found = pattern.reader.within(name)
                    if found is not None and group_name_problem(found.stream) is None:
                        yield pattern.places, found.stream
