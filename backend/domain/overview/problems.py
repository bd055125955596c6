"""Problems of an estate or a tenant, in the order in which they matter, and the verdict on all of them."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from backend.domain.base.words import counted

T = TypeVar("T")

FEW = 3
"""Most problems of one code that are listed one by one; more are summed up in one problem."""
_LONGEST_REASON = 200
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~/")
_DETAILS = re.compile(r" \(after .*\)$")
_OF_A_BROKER = re.compile(r"(?:\w+://)?([^/\s]+:\d+)(?:/\w+)?: (?:Connect to \S+ failed: )?(.+)")
"""Reason of librdkafka: "<address>/<broker>: Connect to <address> failed: Connection refused (after 0ms in …)"."""


class Kind(StrEnum):
    """Kind of a problem; kinds are listed in this order."""

    DATA_LOSS = "data-loss"
    AVAILABILITY = "availability"
    LATENESS = "lateness"
    DRIFT = "drift"
    """The estate is not as it was declared."""
    INFORMATION = "information"
    """An explanation of what is seen, and no problem."""


class Severity(StrEnum):
    """Severity of a problem, the gravest first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFORMATION = "information"


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """Page on which the problem is solved, or its cause is shown."""

    label: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem, or a piece of information."""

    code: str
    """Name of what is wrong; one code has one kind and one severity."""
    kind: Kind
    severity: Severity
    subject: str
    """Name of the resource."""
    text: str
    """One sentence: what is wrong, and where."""
    advice: str
    """One sentence that says what to do."""
    since: datetime | None = None
    way_out: WayOut


@dataclass(frozen=True, kw_only=True)
class Health:
    """Verdict on an estate, or on the part of it that a tenant sees."""

    verdict: str
    """One sentence: the first problem, or that there is none."""
    problems: tuple[Problem, ...]
    counts: Mapping[str, int | None]
    """Figures by name; None where a figure is not known."""

    @property
    def severity(self) -> Severity:
        """Return the severity of the gravest problem; `information`: there is none."""
        return min(
            (problem.severity for problem in self.problems), key=_SEVERITIES.index, default=Severity.INFORMATION
        )

    @property
    def is_fine(self) -> bool:
        """Return whether there is no problem; information is none."""
        return self.severity is Severity.INFORMATION


_KINDS, _SEVERITIES = list(Kind), list(Severity)


def judge(found: Iterable[Problem], fine: str, counts: Mapping[str, int | None]) -> Health:
    """Return the verdict on problems in any order; `fine` is the sentence for the case that there is none."""
    problems = sorted(found, key=lambda problem: (_KINDS.index(problem.kind), _SEVERITIES.index(problem.severity)))
    real = [problem for problem in problems if problem.kind is not Kind.INFORMATION]
    verdict = fine
    if real:
        more = f" {counted(len(real) - 1, 'more problem')}." if len(real) > 1 else ""
        verdict = real[0].text + more
    return Health(verdict=verdict, problems=tuple(problems), counts=counts)


def few_or_all(found: Sequence[T], problem: Callable[[Sequence[T]], Problem]) -> Iterator[Problem]:
    """Yield a problem for each item, or a single one for all if they are more than FEW."""
    if len(found) > FEW:
        yield problem(found)
    else:
        yield from (problem([item]) for item in found)


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are: `c1, c2, c3 and 4 more`."""
    rest = len(names) - FEW
    return f"{', '.join(names[:FEW])} and {rest:,} more" if rest > 0 else ", ".join(names)


def are(names: Sequence[str]) -> str:
    """Return the verb that follows these names."""
    return "is" if len(names) == 1 else "are"


def gist(reason: str) -> str:
    """Return a reason in brief; of librdkafka's, the error and the address."""
    text = _DETAILS.sub("", reason.strip().rstrip("."))
    found = _OF_A_BROKER.fullmatch(text)
    return f"{found[2]} at {found[1]}" if found else text


def because(reason: str | None) -> str:
    """Return the end of a sentence: a colon with the reason if there is one, and the full stop."""
    text = gist(reason or "")
    if len(text) > _LONGEST_REASON:
        text = f"{text[:_LONGEST_REASON]}…"
    return f": {text}." if text else "."


def oldest(times: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest of the known times; None if none is known."""
    return min((moment for moment in times if moment is not None), default=None)


def address(path: str, **query: str) -> str:
    """Return an address of the console, with its parameters quoted. Names in paths need no quotes."""
    given = "&".join(f"{name}={_quoted(value)}" for name, value in query.items())
    return f"{path}?{given}" if given else path


def _quoted(text: str) -> str:
    """Quote a text as RFC 3986 says; names of groups may have any character."""
    return "".join(sign if sign in _PLAIN else f"%{byte:02X}" for sign in text for byte in sign.encode())
