"""Mapping of names on a cluster back to the streams or groups that they may stand for.

A format may leave out parts and a separator may also occur inside names, so a technical name cannot simply be
parsed. It is looked up instead: among declared streams, then among what could be declared in the environments
that exist. Only a name that no environment claims is split by the format alone. An ambiguous name is left to the
operator, with the possible readings.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from backend.domain.names.names import LONGEST_NAME, LONGEST_STREAM, StreamName, group_name_problem

MOST_READINGS = 5
_SCOPE = ("tenant", "instance", "environment")
_NAME = "[a-z0-9][a-z0-9._-]*"
_GROUP = "(?s:.+)"
"""Any text: it is validated as the name of a group afterwards, which gives a better message."""
_CHARACTERS = frozenset(string.ascii_lowercase + string.digits + "._-")

EnvironmentPlace = tuple[str, str, str]
"""(tenant, instance, environment)."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The meaning of a name: `found`, or the reason why it is unknown.

    `others` are the readings between which only the operator can choose, up to `MOST_READINGS`.
    """

    found: StreamName | None = None
    reason: str | None = None
    others: tuple[StreamName, ...] = ()


class Reader:
    """Reads names that one format of one cluster makes. `part` is "topic" or "group"."""

    def __init__(
        self,
        text: str,
        part: str,
        environments: Sequence[EnvironmentPlace],
        declared: Mapping[str, StreamName],
    ) -> None:
        """`declared`: technical name on this cluster -> the stream that has it."""
        self._text = text
        self._part = part
        self._declared = declared
        self._pieces = [(literal, name) for literal, name, _, _ in string.Formatter().parse(text)]
        self._missing = [name for name in _SCOPE if "{" + name + "}" not in text]
        self._within = [(place, self._pattern(place)) for place in environments]

    def read(self, name: str) -> Reading:
        """Return the reading of one name."""
        if name in self._declared:
            return Reading(found=self._declared[name])
        known = list(islice(self._in_environments(name), MOST_READINGS))
        if len(known) == 1:
            problem = group_name_problem(known[0].stream) if self._part == "group" else None
            return Reading(reason=problem) if problem else Reading(found=known[0])
        if known:
            return self._ambiguous(name, known)
        if self._missing:
            left_out = ", ".join("{" + part + "}" for part in self._missing)
            return Reading(
                reason=f"the format {self._text!r} leaves out {left_out} and no environment claims the name: "
                "declare its environment first, or name the stream"
            )
        splits = list(islice(self._splits(name), MOST_READINGS))
        if len(splits) == 1:
            return Reading(found=splits[0])
        if splits:
            return self._ambiguous(name, splits)
        why = "; logical names are lower case" if name != name.lower() else ""
        return Reading(reason=f"the format {self._text!r} gives this name to no {self._part}{why}")

    def within(self, name: str) -> StreamName | None:
        """Return the only reading of a name within the environments; None if there is none, or more than one.

        A group's own part of the name is not checked here (`names.group_name_problem`).
        """
        known = list(islice(self._in_environments(name), 2))
        return known[0] if len(known) == 1 else None

    def _ambiguous(self, name: str, readings: Sequence[StreamName]) -> Reading:
        more = " and more" if len(readings) == MOST_READINGS else ""
        listed = ", ".join(map(str, readings))
        return Reading(
            reason=f"{name!r} can be read as {listed}{more}: declare its environment first, or name the stream",
            others=tuple(readings),
        )

    def _in_environments(self, name: str) -> Iterator[StreamName]:
        for place, pattern in self._within:
            match = pattern.fullmatch(name)
            if match and (self._part == "group" or len(match["found"]) <= LONGEST_STREAM):
                yield StreamName(*place, match["found"])

    def _pattern(self, place: EnvironmentPlace) -> re.Pattern[str]:
        values = dict(zip(_SCOPE, place, strict=True))
        text, named = "", False
        for literal, part in self._pieces:
            text += re.escape(literal)
            if part is None:
                continue
            if part in values:
                text += re.escape(values[part])
            else:
                own = _GROUP if self._part == "group" else _NAME
                text += "(?P=found)" if named else f"(?P<found>{own})"
                named = True
        return re.compile(text)

    def _splits(self, name: str) -> Iterator[StreamName]:
        """Yield every split of the name into legal parts."""
        end = self._pieces[-1][0] if self._pieces[-1][1] is None else ""
        # Checked before all splits of a long name are tried in vain.
        if not name.endswith(end) or set(name) - _CHARACTERS - {c for literal, _ in self._pieces for c in literal}:
            return
        for parts in _split(self._pieces, name, {}):
            yield StreamName(parts["tenant"], parts["instance"], parts["environment"], parts[self._part])


def _split(
    pieces: Sequence[tuple[str, str | None]], rest: str, bound: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    if not pieces:
        if not rest:
            yield bound
        return
    (literal, part), *others = pieces
    if not rest.startswith(literal):
        return
    rest = rest[len(literal) :]
    if part is None:
        yield from _split(others, rest, bound)
        return
    longest = LONGEST_NAME if part in _SCOPE else LONGEST_STREAM
    ends: Iterable[int] = range(1, min(len(rest), longest) + 1)
    if part in bound:
        ends = (len(bound[part]),) if rest.startswith(bound[part]) else ()
    elif others and others[0][0]:
        # This part can only end where the next literal begins.
        following = others[0][0]
        ends = (end for end in ends if rest.startswith(following, end))
    elif not others:
        ends = (len(rest),) if len(rest) <= longest else ()
    for end in ends:
        value = rest[:end]
        if re.fullmatch(_NAME, value):
            yield from _split(others, rest[end:], {**bound, part: value})
