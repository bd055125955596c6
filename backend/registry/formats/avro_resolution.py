"""Check whether data written with one Avro schema can be read with another (Avro 1.12, "Schema Resolution").

Own code instead of the `avro` package's checker, whose time grows with the square of a record's width (a megabyte
of fields: minutes), which loses the place once it enters a union, and knows an alias only by its full name. If the
specification leaves a choice, the stricter one is taken, so that every reader can rely on the answer:

- of a reader's union, the branch counts that a reader would take: the one of the same full name, else the first
  that matches; a later branch that would be better is no help, since no reader tries it;
- decimals match if their scales are equal, else every number would change; the reader may have more digits.

Names of rules are those of Avro's Java library, which clients know.
"""

from __future__ import annotations

from collections import deque

from backend.registry.formats.avro_types import (
    NOTHING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Written type -> other types that can read it."""
_LONGEST_PLACE = 300
"""Characters of a place; a chain of nested records would make places as long as the schema."""


def problems(reader: Type, writer: Type, reader_called: str, writer_called: str) -> list[str]:
    """Return one sentence for each place in the reader's schema that prevents reading; empty if none does."""
    resolution = _Resolution(reader_called, writer_called)
    resolution.compare(reader, writer, "")
    resolution.finish()
    return resolution.problems


class _Resolution:
    """Collects problems. Records wait in a queue, each pair once: so cycles end, and chains need no stack."""

    def __init__(self, reader_called: str, writer_called: str) -> None:
        self.reader_called, self.writer_called = reader_called, writer_called
        self.problems: list[str] = []
        self._waiting: deque[tuple[Record, Record, str]] = deque()
        self._met: set[tuple[int, int]] = set()
        self._branches: dict[int, dict[str, list[int]]] = {}

    def finish(self) -> None:
        while self._waiting:
            self._compare_records(*self._waiting.popleft())

    def compare(self, reader: Type, writer: Type, at: str) -> None:
        if isinstance(writer, Union):
            for branch in writer.branches:
                self.compare(reader, branch, at)
        elif isinstance(reader, Union):
            index = self._branch_taken(reader, writer)
            if index is None:
                what = f"no branch of {self.reader_called} reads {_shown(writer)} of {self.writer_called}"
                self._add("MISSING_UNION_BRANCH", at, what)
            else:
                self.compare(reader.branches[index], writer, f"{at}/{index}")
        elif isinstance(reader, Array | Map) and isinstance(writer, Array | Map) and reader.type == writer.type:
            self.compare(reader.of, writer.of, f"{at}/{'items' if isinstance(reader, Array) else 'values'}")
        elif isinstance(reader, Named) and isinstance(writer, Named) and type(reader) is type(writer):
            self._compare_named(reader, writer, at)
        elif isinstance(reader, Primitive) and isinstance(writer, Primitive) and _reads(reader, writer):
            self._compare_decimals(reader, writer, at)
        else:
            ours, theirs = (
                f"{self.reader_called} has {_shown(reader)}",
                f"{_shown(writer)} of {self.writer_called}",
            )
            self._add("TYPE_MISMATCH", at, f"{ours}, which cannot read {theirs}")

    def _compare_named(self, reader: Named, writer: Named, at: str) -> None:
        if not _same_name(reader, writer):
            what = f"{self.reader_called} calls it {reader.name!r}, {self.writer_called} {writer.name!r}"
            self._add("NAME_MISMATCH", f"{at}/name", what)
        if isinstance(reader, Record) and isinstance(writer, Record):
            if (id(reader), id(writer)) not in self._met:
                self._met.add((id(reader), id(writer)))
                self._waiting.append((reader, writer, at[-_LONGEST_PLACE:]))
        elif isinstance(reader, Enum) and isinstance(writer, Enum):
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            if missing and reader.default is None:
                lacks = f"{self.reader_called} has no default for {_listed(missing)}"
                self._add("MISSING_ENUM_SYMBOLS", f"{at}/symbols", f"{lacks}, which {self.writer_called} has")
        elif isinstance(reader, Fixed) and isinstance(writer, Fixed):
            if reader.size != writer.size:
                what = f"{self.reader_called} has {reader.size} bytes, {self.writer_called} {writer.size}"
                self._add("FIXED_SIZE_MISMATCH", f"{at}/size", what)
            self._compare_decimals(reader, writer, at)

    def _compare_records(self, reader: Record, writer: Record, at: str) -> None:
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            here = f"{at}/fields/{index}"
            found = _written_field(field, written)
            if found is not None:
                self.compare(field.type, found.type, f"{here}/type")
            elif field.default is NOTHING:
                ours = f"field {field.name!r} of {self.reader_called} has no default"
                self._add(
                    "READER_FIELD_MISSING_DEFAULT_VALUE", here, f"{ours} and {self.writer_called} no such field"
                )

    def _compare_decimals(self, reader: Primitive | Fixed, writer: Primitive | Fixed, at: str) -> None:
        ours, theirs = _decimal(reader), _decimal(writer)
        if ours and theirs and (ours[1] != theirs[1] or ours[0] < theirs[0]):
            what = (
                f"{self.reader_called} has decimals of precision {ours[0]} and scale {ours[1]}, "
                f"{self.writer_called} of precision {theirs[0]} and scale {theirs[1]}"
            )
            self._add("TYPE_MISMATCH", at, what)

    def _branch_taken(self, reader: Union, writer: Type) -> int | None:
        """Return the branch that a reader takes: the very type if there is one, else the first that matches."""
        if id(reader) not in self._branches:
            self._branches[id(reader)] = _by_name(reader)
        names = [writer.simple_name, writer.name] if isinstance(writer, Named) else [""]
        found = {index for name in names for index in self._branches[id(reader)].get(name, ())}
        matching = sorted(index for index in found if _matches(reader.branches[index], writer))
        same = (index for index in matching if _is(reader.branches[index], writer))
        return next(same, matching[0] if matching else None)

    def _add(self, rule: str, at: str, what: str) -> None:
        self.problems.append(f"{rule} at {at or '/'}: {what}")


def _by_name(union: Union) -> dict[str, list[int]]:
    """Index branches by name and alias; unnamed types are under the empty name."""
    found: dict[str, list[int]] = {}
    for index, branch in enumerate(union.branches):
        for name in (branch.simple_name, *branch.aliases) if isinstance(branch, Named) else ("",):
            found.setdefault(name, []).append(index)
    return found


def _is(reader: Type, writer: Type) -> bool:
    if isinstance(reader, Named) and isinstance(writer, Named):
        return reader.name == writer.name
    return reader.type == writer.type


def _matches(reader: Type, writer: Type) -> bool:
    """Apply the specification's "match", which selects branches of unions: it does not look into types."""
    if isinstance(reader, Named) and isinstance(writer, Named):
        same_size = not isinstance(reader, Fixed) or (isinstance(writer, Fixed) and reader.size == writer.size)
        return type(reader) is type(writer) and same_size and _same_name(reader, writer)
    if isinstance(reader, Primitive) and isinstance(writer, Primitive):
        return _reads(reader, writer)
    return reader.type == writer.type


def _reads(reader: Primitive, writer: Primitive) -> bool:
    return reader.type == writer.type or reader.type in _PROMOTIONS.get(writer.type, ())


def _same_name(reader: Named, writer: Named) -> bool:
    """Compare names; namespaces do not count, but an alias is a full name."""
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases


def _written_field(field: Field, written: dict[str, Field]) -> Field | None:
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _decimal(kind: Primitive | Fixed) -> tuple[int, int] | None:
    """Return (precision, scale); None if it is no decimal, or an invalid one, which counts as bytes."""
    if kind.properties.get("logicalType") != "decimal" or kind.type not in ("bytes", "fixed"):
        return None
    precision, scale = kind.properties.get("precision"), kind.properties.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return None
    return precision, scale


def _shown(kind: Type) -> str:
    return f"{kind.type} {kind.name!r}" if isinstance(kind, Named) else kind.type


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
