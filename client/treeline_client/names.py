"""Logical names and what they are called on one cluster, by the formats that discovery gives.

A format is a text with `{tenant}`, `{instance}`, `{environment}` and, once, the name's own place: `{topic}` or
`{group}`. Nothing else in it is touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{(\w+)\}")


class Format:
    """One format with the tenant, instance and environment filled in: what stands before and after the name."""

    def __init__(self, text: str, place: str, given: Mapping[str, str]) -> None:
        """Raises ValueError for a format without the place, with it twice, or with an unknown one."""
        found = _PLACE.findall(text)
        unknown = set(found) - {*given, place}
        if found.count(place) != 1 or unknown:
            raise ValueError(f"{text!r} is no format of a {place}")
        before, after = text.split(f"{{{place}}}")
        self._before = _filled(before, given)
        self._after = _filled(after, given)

    def technical(self, name: str) -> str:
        """What the cluster calls it."""
        return f"{self._before}{name}{self._after}"

    def logical(self, technical: str) -> str | None:
        """What the application calls it; None if it is not of this environment."""
        fixed = len(self._before) + len(self._after)
        fits = technical.startswith(self._before) and technical.endswith(self._after)
        if len(technical) <= fixed or not fits:
            return None
        return technical[len(self._before) : len(technical) - len(self._after)]


def _filled(text: str, given: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: given[match.group(1)], text)


class Topic(str):
    """A logical topic name that knows in which generation it was read, and on which cluster.

    Every message of a consumer has one as its topic: so the message itself, which librdkafka's binding makes,
    needs neither a copy nor a wrapper to be told from one of an earlier generation.
    """

    __slots__ = ("cluster", "generation")

    cluster: str
    generation: int

    def __new__(cls, name: str, generation: int, cluster: str) -> Topic:
        made = super().__new__(cls, name)
        made.generation = generation
        made.cluster = cluster
        return made

    def __reduce__(self) -> tuple[type[Topic], tuple[str, int, str]]:
        return Topic, (str(self), self.generation, self.cluster)
