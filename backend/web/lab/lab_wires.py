"""Messages under way between the lanes of a drill, drawn as arrows; cut connections are broken lines.

Each has a column of its own, so that nothing overlaps; labels are written while there is room. The functions are
pure; positions are whole pixels, and rows are as high as lab.css makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.replication_lab.model.messages import producer_name, sent_by
from backend.web.words.figures import wrapped

PRODUCERS, STORE, BROKER, COMMITTED, GAP = 38, 58, 126, 112, 8
"""Heights of rows, in pixels."""
WIDTH = 308
_CUT, _EDGE = 30, 12
PITCH = 98
"""Distance between arrows with labels: 12 characters, and the number of the next arrow."""
_CHARACTERS, _LINES = 12, 3
_LINE, _HEAD = 14, 7
_NOBODY = 0
_MOST_CUTS, _MOST_MESSAGES = 3, 10
"""Most cuts and messages that are drawn; the list below the picture has all."""


@dataclass(frozen=True)
class Wire:
    """A message, from `y` to `to_y`. `number` is its number in the list below the picture."""

    number: int
    x: int
    y: int
    to_y: int
    label: Sequence[tuple[int, str]]
    """Lines of text with their positions; none if there is no room."""
    tag_at: int
    """Position of the message's number."""

    @property
    def shaft(self) -> str:
        """Return the arrow's line, as an SVG path."""
        return f"M{self.x} {self.y}V{self.to_y - _HEAD * self._way}"

    @property
    def head(self) -> str:
        """Return the arrow's head, as an SVG path."""
        back = self.to_y - 9 * self._way
        return f"M{self.x} {self.to_y}L{self.x - 5} {back}L{self.x + 5} {back}Z"

    @property
    def _way(self) -> int:
        return 1 if self.to_y > self.y else -1


@dataclass(frozen=True)
class Cut:
    """A cut connection."""

    x: int
    y: int
    to_y: int
    middle: int
    said: str


@dataclass(frozen=True)
class Wires:
    """All arrows and cuts of a moment."""

    height: int
    messages: Sequence[Wire]
    cuts: Sequence[Cut]
    drawn: Sequence[Cut]
    """Cuts for which there is room."""
    entries: Sequence[tuple[str, str, str]]
    """Sender, receiver and text of each message; the first has number 1."""
    width: int = WIDTH


def end_named(end: int) -> str:
    """Name a connection's end: a broker, the store, or a producer."""
    if end == _NOBODY:
        return "the store"
    return f"broker {end}" if end > 0 else f"producer {producer_name(sent_by(end))}"


def wires_of(frame: Mapping[str, Any]) -> Wires:
    """Lay out a frame with the lanes producers, store, brokers and committed records."""
    brokers = [each["id"] for each in frame["brokers"]]
    lanes = [(0, PRODUCERS)]
    top = PRODUCERS + GAP
    middles = {_NOBODY: top + STORE // 2}
    lanes.append((top, top + STORE))
    top += STORE + GAP
    for broker in brokers:
        middles[broker] = top + BROKER // 2
        lanes.append((top, top + BROKER))
        top += BROKER + GAP

    def middle(end: int) -> int:
        return middles.get(end, PRODUCERS // 2)

    cuts = [_cut(_EDGE + _CUT * at, one, other, middle) for at, (one, other) in enumerate(frame["cut"])]
    messages, drawn = frame["messages"][:_MOST_MESSAGES], cuts[:_MOST_CUTS]
    left = _EDGE + _CUT * len(drawn)
    pitch = min(PITCH, (WIDTH - left) // max(len(messages), 1))
    return Wires(
        height=top + COMMITTED,
        messages=[
            _wire(
                number,
                left + pitch * (number - 1),
                pitch,
                (middle(each["from"]), middle(each["to"])),
                each["what"],
                lanes,
            )
            for number, each in enumerate(messages, 1)
        ],
        cuts=cuts,
        drawn=drawn,
        entries=[(end_named(each["from"]), end_named(each["to"]), each["what"]) for each in frame["messages"]],
    )


def _cut(x: int, one: int, other: int, middle: Callable[[int], int]) -> Cut:
    top, bottom = sorted((middle(one), middle(other)))
    said = f"The connection between {end_named(one)} and {end_named(other)} is cut."
    return Cut(x, top, bottom, (top + bottom) // 2, said)


def _wire(
    number: int, x: int, pitch: int, ends: tuple[int, int], what: str, lanes: Sequence[tuple[int, int]]
) -> Wire:
    lines = wrapped(what, _CHARACTERS, _LINES) if pitch == PITCH else ()
    middle = _within_a_lane(ends, lanes)
    first = middle - _LINE * (len(lines) - 1) // 2 + 4
    label = [(first + _LINE * at, line) for at, line in enumerate(lines)]
    return Wire(number, x, *ends, label, middle)


def _within_a_lane(ends: tuple[int, int], lanes: Sequence[tuple[int, int]]) -> int:
    """Return the middle of the longest part of an arrow that crosses no edge of a lane, for its label."""
    first, last = sorted(ends)
    parts = [(max(first, top), min(last, bottom)) for top, bottom in lanes]
    top, bottom = max(parts, key=lambda part: part[1] - part[0])
    return (top + bottom) // 2
