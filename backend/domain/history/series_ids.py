"""Numbers of series: dense and small, since they are places in rows of samples, and no more than a limit.

When there are more series than the limit, those of distributors, clusters and zones come before those of groups,
and groups with a large lag before others. A group that has a number keeps it against groups with up to twice its
lag: each change of a number's owner ends the history of the former one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from backend.domain.history.metrics import METRICS, Area

Series = tuple[str, str]
"""Metric and subject."""
_LAG = "group.lag_records"


@dataclass(frozen=True, kw_only=True)
class KnownSeries:
    """A series that has a number."""

    id: int
    seen_at: datetime
    """Time of its latest samples, to within some hours."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Numbers of the series that are sampled now."""

    ids: Mapping[Series, int]
    new: Collection[Series]
    ended: Collection[Series]
    """Known series that lost their numbers to new ones."""
    left_out: int
    """Number of series that are not sampled, since there are too many."""


def assign_ids(values: Mapping[Series, float], known: Mapping[Series, KnownSeries], most: int) -> Assignment:
    """Return a number for each series with a value, as far as `most` numbers suffice.

    Unused numbers come first, the smallest of all; then those of series without a value, the longest unseen first;
    then those of series that come after the new ones.
    """
    if len(values) <= most and len(values.keys() | known.keys()) <= most:
        ordered = sorted(values)
    else:
        ordered = sorted(values, key=lambda each: _rank(each, values, known))
    new = [each for each in ordered[:most] if each not in known]
    taken = {each.id for each in known.values()}
    free = _first_unused(taken, most, len(new))
    beyond = [each for each in reversed(ordered[most:]) if each in known]
    ended = [*_unseen(values, known), *beyond][: max(0, len(new) - len(free))]
    numbers = [*free, *(known[each].id for each in ended)]
    ids = {each: known[each].id for each in values if each in known} | dict(zip(new, numbers, strict=False))
    for each in ended:
        ids.pop(each, None)
    given = [each for each in new if each in ids]
    return Assignment(ids=ids, new=given, ended=ended, left_out=len(values) - len(ids))


def _rank(
    series: Series, values: Mapping[Series, float], known: Mapping[Series, KnownSeries]
) -> tuple[bool, float, bool, Series]:
    metric, subject = series
    is_group = METRICS[metric].area is Area.GROUPS
    lag = values.get((_LAG, subject), 0.0) if is_group else 0.0
    weight = 2 if series in known else 1
    return is_group, -(lag + 1) * weight, series not in known, series


def _first_unused(taken: Collection[int], most: int, wanted: int) -> list[int]:
    found: list[int] = []
    for number in count():
        if number == most or len(found) == wanted:
            return found
        if number not in taken:
            found.append(number)
    return found


def _unseen(values: Mapping[Series, float], known: Mapping[Series, KnownSeries]) -> list[Series]:
    """Return the known series without a value, the longest unseen first."""
    return sorted((each for each in known if each not in values), key=lambda each: (known[each].seen_at, each))
