"""Layout of one moment of a drill: each log is a bar of cells on a scale of offsets that all lanes share.

The functions are pure; positions are whole pixels. A long log is cut at its beginning, so that a lane fits into a
narrow window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.domain.base.words import counted

CELL, BAR = 38, 34
MOST_CELLS = 7
LEFT, TOP, SCALE, ENDS = 30, 17, 17, 12
"""Space for the mark of omitted records, the HW's label, the offsets, and the LEO's label."""
_RIGHT = 22
_MOST_SAID = 20
_LABEL = 19
"""Half the width of "LEO 12"."""
Frame = Mapping[str, Any]


@dataclass(frozen=True)
class RecordNames:
    """Names of records from an offset on; of a long log the earlier names are not loaded."""

    first: int
    names: Sequence[str]

    @property
    def end(self) -> int:
        return self.first + len(self.names)

    def __getitem__(self, offset: int) -> str:
        return self.names[offset - self.first]

    def has(self, offset: int) -> bool:
        """Tell whether the record at this offset is loaded."""
        return self.first <= offset < self.end

    @property
    def said(self) -> str:
        """Return the names as text; of many only the newest."""
        earlier = self.end - _MOST_SAID
        if earlier <= 0:
            return ", ".join(self.names)
        return f"{earlier:,} earlier records, {', '.join(self.names[-_MOST_SAID:])}"


def committed_of(frame: Frame) -> RecordNames:
    """Return the committed records at a moment."""
    return RecordNames(frame["committed_start"], frame["committed"])


def log_of(broker: Mapping[str, Any]) -> RecordNames:
    """Return a broker's log."""
    return RecordNames(broker["log_start"], [each["record"] for each in broker["log"]])


@dataclass(frozen=True)
class Window:
    """Range of offsets that is drawn, with its geometry."""

    first: int
    end: int

    @property
    def width(self) -> int:
        return LEFT + CELL * max(self.end - self.first, 3) + _RIGHT

    def x(self, offset: int) -> int:
        """Return the left edge of an offset's cell; just before the first cell if it is not drawn."""
        return LEFT + CELL * (offset - self.first) if offset >= self.first else LEFT - 4


@dataclass(frozen=True)
class Cell:
    """A record, or its empty place.

    `kind`: "sure" below the HW, "unsure" above it, "other" than what is committed at its offset, "missing" if
    nothing is there; of the committed: "promised" or "lost".
    """

    offset: int
    x: int
    record: str
    kind: str
    epoch: int | None = None

    @property
    def below(self) -> str:
        """Return the text below the record's name in its cell."""
        parts = ["" if self.epoch is None else f"e{self.epoch}", "≠" if self.kind == "other" else ""]
        return " ".join(filter(None, parts))


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A log. `said` describes it in words; `hw_at`, `leo_at` and `disk_at` are positions of its marks."""

    width: int
    cells: Sequence[Cell]
    left_out: int
    said: str
    hw: int | None = None
    hw_at: int = 0
    leo: int | None = None
    leo_at: int = 0
    disk_at: int = 0

    @property
    def height(self) -> int:
        return TOP + BAR + SCALE + (0 if self.leo is None else ENDS)

    @property
    def begins_at(self) -> int:
        """Return the position of the first cell."""
        return LEFT

    @property
    def labels_at(self) -> tuple[int, int]:
        """Return the centres of the labels of HW and LEO."""
        return max(self.hw_at, _LABEL), max(self.leo_at, _LABEL)


def window_of(frame: Frame) -> Window:
    """Return the newest offsets that any log, HW or committed record of the frame has."""
    ends = [committed_of(frame).end, 1]
    for broker in frame["brokers"]:
        ends += [broker["leo"], broker["hw"]]
    end = max(ends)
    return Window(max(0, end - MOST_CELLS), end)


def bar_of(broker: Mapping[str, Any], committed: RecordNames, window: Window) -> Bar:
    """Return a broker's log, compared with the committed records."""
    log, hw, leo = log_of(broker), broker["hw"], broker["leo"]
    epochs = [each["epoch"] for each in broker["log"]] if broker["epoch"] is not None else []
    cells = []
    for offset in range(window.first, max(leo, min(committed.end, window.end))):
        at = window.x(offset)
        if offset >= leo:
            cells.append(Cell(offset, at, committed[offset], "missing"))
            continue
        record, epoch = log[offset], epochs[offset - log.first] if epochs else None
        kind = "sure" if offset < hw else "unsure"
        if committed.has(offset) and committed[offset] != record:
            kind = "other"
        cells.append(Cell(offset, at, record, kind, epoch))
    return Bar(
        width=window.width,
        cells=cells,
        left_out=min(window.first, leo),
        said=_said(broker, committed),
        hw=hw,
        hw_at=window.x(hw),
        leo=leo,
        leo_at=window.x(leo),
        disk_at=window.x(min(broker["flushed"], leo)),
    )


def committed_bar(committed: RecordNames, lost: frozenset[int], window: Window) -> Bar:
    """Return the committed records, with those that are lost."""
    cells = [
        Cell(offset, window.x(offset), committed[offset], "lost" if offset in lost else "promised")
        for offset in range(window.first, committed.end)
    ]
    said = f"Committed: {committed.said or 'nothing yet'}."
    if lost:
        said += f" Lost: {', '.join(f'{committed[offset]} at offset {offset}' for offset in sorted(lost))}."
    return Bar(width=window.width, cells=cells, left_out=min(window.first, committed.end), said=said)


def missing_offsets(broker: Mapping[str, Any], committed: RecordNames) -> frozenset[int]:
    """Return the loaded offsets at which a broker lacks the committed record or has another one."""
    log = log_of(broker)
    return frozenset(
        at
        for at in range(committed.first, committed.end)
        if at >= log.end or (log.has(at) and log[at] != committed[at])
    )


def _said(broker: Mapping[str, Any], committed: RecordNames) -> str:
    """Describe a lane's picture for screen readers."""
    log, hw, leo = log_of(broker), broker["hw"], broker["leo"]
    parts = [
        f"Log of broker {broker['id']}: {log.said or 'empty'}; it ends at {leo} (LEO), its HW is {hw}",
        f"On disk: {counted(min(broker['flushed'], leo), 'record')} and HW {broker['checkpoint']}",
    ]
    lacking = missing_offsets(broker, committed)
    missing = ", ".join(f"{committed[at]} at offset {at}" for at in sorted(lacking) if at >= leo)
    differing = ", ".join(
        f"{log[at]} at offset {at}, where {committed[at]} is committed" for at in sorted(lacking) if at < leo
    )
    if missing:
        parts.append(f"Missing committed records: {missing}")
    if differing:
        parts.append(f"Differs from committed records: {differing}")
    return ". ".join(parts) + "."
