"""Check whether data of one Protobuf schema can be read with another ("Updating A Message Type").

Fields are matched by their numbers, messages by their names within the package. The rules and their names are
those of Confluent's registry, with three that are missing there: a field that became required; groups, which are
encoded differently from messages; bytes read as a string, which fails if they are no UTF-8. Not checked, as there:
services, extensions, names of fields, and the constants of an enum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

_F = FieldDescriptor
_SCALARS = {
    "varint": (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM),
    "zigzag varint": (_F.TYPE_SINT32, _F.TYPE_SINT64),
    "fixed32": (_F.TYPE_FIXED32, _F.TYPE_SFIXED32),
    "fixed64": (_F.TYPE_FIXED64, _F.TYPE_SFIXED64),
    "float": (_F.TYPE_FLOAT,),
    "double": (_F.TYPE_DOUBLE,),
    "text": (_F.TYPE_STRING, _F.TYPE_BYTES),
}
_ENCODING = {kind: encoding for encoding, kinds in _SCALARS.items() for kind in kinds}
"""Scalar type -> encoding; types with the same encoding can read each other."""


def problems(reader: FileDescriptor, writer: FileDescriptor, reader_called: str, writer_called: str) -> list[str]:
    """Return one sentence for each place that prevents the reader from reading the writer's data."""
    comparison = _Comparison(reader_called, writer_called)
    if reader.package != writer.package:
        what = f"{reader_called} is in package {reader.package!r}, {writer_called} in {writer.package!r}"
        comparison.add("PACKAGE_CHANGED", "/", what)
    theirs = dict(_messages(writer.message_types_by_name.values()))
    ours = dict(_messages(reader.message_types_by_name.values()))
    for name, message in theirs.items():
        if name in ours:
            comparison.later(ours[name], message, f"/{name}")
        else:
            what = f"{writer_called} has this message, {reader_called} has not"
            comparison.add("MESSAGE_REMOVED", f"/{name}", what)
    comparison.finish()
    return comparison.problems


class _Oneofs:
    """A message's oneofs, without those that the compiler makes for a proto3 field's `optional`."""

    def __init__(self, message: Descriptor) -> None:
        proto = DescriptorProto()
        message.CopyToProto(proto)
        self.of: dict[int, str] = {
            field.number: proto.oneof_decl[field.oneof_index].name
            for field in proto.field
            if field.HasField("oneof_index") and not field.proto3_optional
        }
        """Number of a field -> its oneof."""
        self.members: dict[str, list[int]] = {}
        for number, oneof in self.of.items():
            self.members.setdefault(oneof, []).append(number)
        self._surviving: dict[str, bool] = {}

    def survives(self, oneof: str, reader: Descriptor) -> bool:
        """Tell whether the reader still has a member: a oneof may be removed as a whole, but not in part."""
        if oneof not in self._surviving:
            numbers = reader.fields_by_number
            self._surviving[oneof] = any(number in numbers for number in self.members[oneof])
        return self._surviving[oneof]


class _Comparison:
    """Collects problems. Messages wait in a queue, each pair once, so that cycles end."""

    def __init__(self, reader_called: str, writer_called: str) -> None:
        self.reader_called, self.writer_called = reader_called, writer_called
        self.problems: list[str] = []
        self._waiting: deque[tuple[Descriptor, Descriptor, str]] = deque()
        self._met: set[tuple[str, str]] = set()

    def later(self, reader: Descriptor, writer: Descriptor, at: str) -> None:
        if (reader.full_name, writer.full_name) not in self._met:
            self._met.add((reader.full_name, writer.full_name))
            self._waiting.append((reader, writer, at))

    def finish(self) -> None:
        while self._waiting:
            self._messages(*self._waiting.popleft())

    def add(self, rule: str, at: str, what: str) -> None:
        self.problems.append(f"{rule} at {at}: {what}")

    def _messages(self, reader: Descriptor, writer: Descriptor, at: str) -> None:
        ours, theirs = _Oneofs(reader), _Oneofs(writer)
        self._oneofs(ours, theirs, writer, at)
        for number, field in sorted(writer.fields_by_number.items()):
            here, oneof = f"{at}/{number}", theirs.of.get(number)
            if number in reader.fields_by_number:
                self._fields(reader.fields_by_number[number], field, here)
            elif field.is_required:
                what = f"{self.writer_called} requires field {field.name!r}"
                self.add("REQUIRED_FIELD_REMOVED", here, f"{what}, {self.reader_called} has no such field")
            elif oneof and (oneof in ours.members or theirs.survives(oneof, reader)):
                what = f"{self.reader_called} lacks {field.name!r} of the oneof {oneof!r}"
                self.add("ONEOF_FIELD_REMOVED", here, what)
        for number, field in sorted(reader.fields_by_number.items()):
            if number not in writer.fields_by_number and field.is_required:
                what = f"{self.reader_called} requires field {field.name!r}"
                self.add(
                    "REQUIRED_FIELD_ADDED", f"{at}/{number}", f"{what}, {self.writer_called} has no such field"
                )

    def _oneofs(self, ours: _Oneofs, theirs: _Oneofs, writer: Descriptor, at: str) -> None:
        """Add a problem if fields that the writer may set together exclude each other for the reader.

        The reader would lose all but the last.
        """
        for oneof, members in ours.members.items():
            known = [number for number in members if number in writer.fields_by_number]
            alone = [number for number in known if number not in theirs.of]
            if len(alone) + len({theirs.of[number] for number in known if number in theirs.of}) < 2:
                continue
            rule = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(alone) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            names = ", ".join(repr(writer.fields_by_number[number].name) for number in known)
            what = f"{self.writer_called} can set {names} together, {self.reader_called} only one of them"
            self.add(rule, f"{at}/{oneof}", what)

    def _fields(self, reader: FieldDescriptor, writer: FieldDescriptor, at: str) -> None:
        ours, theirs = _shape(reader), _shape(writer)
        message, written = reader.message_type, writer.message_type
        if ours != theirs:
            what = f"{self.reader_called} has a {ours}, {self.writer_called} a {theirs}"
            self.add("FIELD_KIND_CHANGED", at, what)
        elif message is None or written is None:
            self._scalars(reader, writer, at)
        elif ours == "map":
            for name in ("key", "value"):
                self._fields(message.fields_by_name[name], written.fields_by_name[name], f"{at}/{name}")
        elif _local_name(message) != _local_name(written):
            what = f"{self.reader_called} has message {message.full_name!r}"
            self.add("FIELD_NAMED_TYPE_CHANGED", at, f"{what}, {self.writer_called} {written.full_name!r}")
        else:
            self.later(message, written, f"/{_local_name(message)}")
        if reader.is_required and not writer.is_required:
            what = f"{self.reader_called} requires field {reader.name!r}, {self.writer_called} may leave it out"
            self.add("FIELD_BECAME_REQUIRED", at, what)

    def _scalars(self, reader: FieldDescriptor, writer: FieldDescriptor, at: str) -> None:
        to_text = reader.type == _F.TYPE_STRING and writer.type == _F.TYPE_BYTES
        if _ENCODING[reader.type] != _ENCODING[writer.type] or to_text:
            what = f"{self.reader_called} has {_type(reader)}, {self.writer_called} {_type(writer)}"
            self.add("FIELD_SCALAR_KIND_CHANGED", at, what)
        elif reader.is_repeated != writer.is_repeated and _ENCODING[reader.type] != "text":
            one, many = self.reader_called, self.writer_called
            if reader.is_repeated:
                one, many = many, one
            self.add("FIELD_NUMERIC_LABEL_CHANGED", at, f"{many} has many numbers, {one} has one")


def _messages(messages: Iterable[Descriptor]) -> Iterator[tuple[str, Descriptor]]:
    """Yield messages by their names within the package; nested ones, too, but not the entries of maps."""
    for message in messages:
        if not message.GetOptions().map_entry:
            yield _local_name(message), message
            yield from _messages(message.nested_types)


def _local_name(message: Descriptor) -> str:
    package = message.file.package
    return message.full_name.removeprefix(f"{package}.") if package else message.full_name


def _shape(field: FieldDescriptor) -> str:
    if field.message_type is None:
        return "scalar"
    if field.message_type.GetOptions().map_entry:
        return "map"
    return "group" if field.type == _F.TYPE_GROUP else "message"


def _type(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return f"enum {field.enum_type.full_name!r}"
    names = {value: name for name, value in vars(_F).items() if name.startswith("TYPE_")}
    return names[field.type].removeprefix("TYPE_").lower()
