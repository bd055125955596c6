"""Lines of charts as SVG paths. A missing value is a gap: a line never crosses it, and nothing is invented."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

LARGEST = 1e38
"""Largest value that the tables of measures hold."""
Spot = tuple[int, int]
"""Coordinates in a path's own units: from the left, from the top."""


def value_or_gap(value: float | None) -> float | None:
    """Return the value as it is drawn: None where there is none or it is no finite value; never negative."""
    return None if value is None or not -LARGEST <= value <= LARGEST else max(0.0, value)


def runs(spots: Iterable[Spot | None]) -> list[list[Spot]]:
    """Return the stretches without gaps, in order."""
    found: list[list[Spot]] = []
    is_open = False
    for spot in spots:
        if spot is None:
            is_open = False
        elif is_open:
            found[-1].append(spot)
        else:
            found.append([spot])
            is_open = True
    return found


def line_path(stretches: Sequence[Sequence[Spot]]) -> str:
    """Return the path along all stretches of two spots or more; a stretch of one spot is a dot instead."""
    return "".join(f"M{_polyline(each)}" for each in stretches if len(each) > 1)


def area_path(stretches: Sequence[Sequence[Spot]], floor: int) -> str:
    """Return the path around the areas between the stretches and the floor."""
    return "".join(
        f"M{_polyline([(each[0][0], floor), *each, (each[-1][0], floor)])}z" for each in stretches if len(each) > 1
    )


def stem_path(spots: Iterable[Spot | None], floor: int) -> str:
    """Return the path of a stem from the floor to each spot, for values that stand for themselves."""
    return "".join(f"M{_polyline([(spot[0], floor), spot])}" for spot in spots if spot is not None)


def dots(stretches: Sequence[Sequence[Spot]]) -> list[Spot]:
    """Return the spots without neighbours."""
    return [each[0] for each in stretches if len(each) == 1]


def _polyline(spots: Sequence[Spot]) -> str:
    """Return the spots, each relative to the one before: pages are sent uncompressed, and have many of them."""
    steps = (f"{right - left} {low - top}" for (left, top), (right, low) in pairwise(spots))
    return f"{spots[0][0]} {spots[0][1]}l{' '.join(steps)}".replace(" -", "-")
