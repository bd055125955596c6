"""Logical names and their technical names on one cluster, by the formats that discovery gives.

A format is a text with `{tenant}`, `{instance}`, `{environment}` and, once, the name's own placeholder: `{topic}`
or `{group}`. The rest of the text is left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{(\w+)\}")


class Format:
    """A format with tenant, instance and environment filled in: the text before and after the name."""

    def __init__(self, text: str, place: str, given: Mapping[str, str]) -> None:
        """Raises ValueError for a format without the placeholder, with two of them, or with an unknown one."""
        found = _PLACE.findall(text)
        unknown = set(found) - {*given, place}
        if found.count(place) != 1 or unknown:
            raise ValueError(f"{text!r} is not a format of a {place}")
        before, after = text.split(f"{{{place}}}")
        self._before = _filled(before, given)
        self._after = _filled(after, given)

    def technical(self, name: str) -> str:
        """Return the technical name on the cluster."""
        return f"{self._before}{name}{self._after}"

    def logical(self, technical: str) -> str | None:
        """Return the logical name; None if the name is not of this environment."""
        fixed = len(self._before) + len(self._after)
        fits = technical.startswith(self._before) and technical.endswith(self._after)
        if len(technical) <= fixed or not fits:
            return None
        return technical[len(self._before) : len(technical) - len(self._after)]


def _filled(text: str, given: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: given[match.group(1)], text)


class Topic(str):
    """A logical topic name with the generation and the cluster in which it was read.

    Every message of a consumer has one as its topic, so that messages of an earlier generation are recognized
    without copying or wrapping the message, which librdkafka's binding creates.
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
