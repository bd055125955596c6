"""Line-by-line comparison of two texts for pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_LINES = 3000
"""Maximum lines; a comparison takes up to the product of both texts' lines."""
_AROUND = 3
SAME, ADDED, REMOVED = "same", "added", "removed"
_SIGNS = {SAME: " ", ADDED: "+", REMOVED: "-"}


@dataclass(frozen=True)
class Line:
    """A line with its numbers, counted from 1, in the texts before and after; None where it is absent."""

    kind: str
    before: int | None
    after: int | None
    text: str

    @property
    def sign(self) -> str:
        return _SIGNS[self.kind]


def hunks(before: str, after: str) -> tuple[tuple[Line, ...], ...] | None:
    """Return the differences with a few lines of context; empty if there are none. None: too long to compare."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        return None
    groups = SequenceMatcher(None, old, new).get_grouped_opcodes(_AROUND)
    return tuple(tuple(_lines(group, old, new)) for group in groups if any(tag != "equal" for tag, *_ in group))


def _lines(
    group: Sequence[tuple[str, int, int, int, int]], old: Sequence[str], new: Sequence[str]
) -> Iterator[Line]:
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            for offset in range(last - first):
                yield Line(SAME, first + offset + 1, new_first + offset + 1, old[first + offset])
            continue
        for number in range(first, last):
            yield Line(REMOVED, number + 1, None, old[number])
        for number in range(new_first, new_last):
            yield Line(ADDED, None, number + 1, new[number])
