"""Protobuf descriptors written as text of a .proto file, with full names of types, with a leading dot."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from google.protobuf import message_factory, text_encoding, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    OneofDescriptorProto,
    ServiceDescriptorProto,
    SymbolVisibility,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

_Field = FieldDescriptorProto
_VISIBLE = {SymbolVisibility.VISIBILITY_EXPORT: "export ", SymbolVisibility.VISIBILITY_LOCAL: "local "}
_MOST = {0x20000000, 0x7FFFFFFF}
"""Ends of ranges that mean `max`: of field numbers, and of the old message sets."""


def written(file: FileDescriptorProto, known: DescriptorPool) -> str:
    """Write a file. `known` has all that the file imports, from which it resolves custom options."""
    return "\n".join(_File(file, known).lines()) + "\n"


def quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text, as_utf8=True)}"'  # type: ignore[arg-type]


def json_name(name: str) -> str:
    """Return the JSON name that a field has by default."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _within(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


class _File:
    def __init__(self, file: FileDescriptorProto, known: DescriptorPool) -> None:
        self._file, self._known = file, known

    def lines(self) -> Iterator[str]:
        file = self._file
        if file.syntax == "editions":
            yield f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for index, name in enumerate(file.dependency):
            weak = "weak " if index in file.weak_dependency else ""
            yield f"import {'public ' if index in file.public_dependency else weak}{quoted(name)};"
        for name in file.option_dependency:
            yield f"import option {quoted(name)};"
        yield from self._option_lines(file.options)
        for enum in file.enum_type:
            yield from self._enum(enum)
        yield from self._members(file.message_type, file.extension)
        for service in file.service:
            yield from self._service(service)

    def _members(
        self,
        messages: Sequence[DescriptorProto],
        extensions: Sequence[_Field],
        fields: Sequence[_Field] = (),
        oneofs: Sequence[OneofDescriptorProto] = (),
    ) -> Iterator[str]:
        """Yield a scope's fields, extensions and messages.

        The messages of groups and maps are written with their fields; the others go between them in their order.
        """
        waiting, by_name = deque(messages), {message.name: message for message in messages}
        for head, options, members in _blocks(fields, oneofs, extensions):
            own = [_own_message(field, by_name) for field in members]
            for message in filter(None, own):
                while waiting and waiting[0].name != message.name:
                    yield from self._message(waiting.popleft())
                waiting.popleft()
            lines = [
                line for field, message in zip(members, own, strict=True) for line in self._field(field, message)
            ]
            if head is not None:
                lines = [f"{head} {{", *_within([*self._option_lines(options), *lines]), "}"]
            yield from lines
        for message in waiting:
            yield from self._message(message)

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"{_VISIBLE.get(message.visibility, '')}message {message.name} {{"
        yield from _within(self._message_body(message))
        yield "}"

    def _message_body(self, message: DescriptorProto) -> Iterator[str]:
        yield from self._option_lines(message.options)
        for enum in message.enum_type:
            yield from self._enum(enum)
        yield from self._members(message.nested_type, message.extension, message.field, message.oneof_decl)
        for extensions in message.extension_range:
            more = self._in_brackets(extensions.options)
            yield f"extensions {_range(extensions.start, extensions.end - 1)}{more};"
        for reserved in message.reserved_range:
            yield f"reserved {_range(reserved.start, reserved.end - 1)};"
        yield from self._reserved_names(message.reserved_name)

    def _field(self, field: _Field, own: DescriptorProto | None) -> Iterator[str]:
        label = self._label(field)
        more = self._in_brackets(field.options, self._own_options(field))
        if own is not None and own.options.map_entry:
            key, value = (_type(each) for each in own.field)
            yield f"map<{key}, {value}> {field.name} = {field.number}{more};"
        elif own is not None:
            yield f"{label}group {own.name} = {field.number}{more} {{"
            yield from _within(self._message_body(own))
            yield "}"
        else:
            yield f"{label}{_type(field)} {field.name} = {field.number}{more};"

    def _label(self, field: _Field) -> str:
        if field.label == _Field.LABEL_REPEATED:
            return "repeated "
        if field.label == _Field.LABEL_REQUIRED:
            return "required "
        optional = field.proto3_optional or self._file.syntax in ("", "proto2")
        return "optional " if optional and not _in_oneof(field) else ""

    def _own_options(self, field: _Field) -> Iterator[str]:
        if field.HasField("default_value"):
            value = field.default_value
            if field.type == _Field.TYPE_STRING:
                value = quoted(value)
            elif field.type == _Field.TYPE_BYTES:
                value = f'"{value}"'
            yield f"default = {value}"
        if field.json_name and field.json_name != json_name(field.name) and not field.extendee:
            yield f"json_name = {quoted(field.json_name)}"

    def _enum(self, enum: EnumDescriptorProto) -> Iterator[str]:
        yield f"{_VISIBLE.get(enum.visibility, '')}enum {enum.name} {{"
        yield from _within(self._option_lines(enum.options))
        for value in enum.value:
            yield f"  {value.name} = {value.number}{self._in_brackets(value.options)};"
        for reserved in enum.reserved_range:
            yield f"  reserved {_range(reserved.start, reserved.end)};"
        yield from _within(self._reserved_names(enum.reserved_name))
        yield "}"

    def _reserved_names(self, names: Iterable[str]) -> Iterator[str]:
        editions = self._file.syntax == "editions"
        return (f"reserved {name if editions else quoted(name)};" for name in names)

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _within(self._option_lines(service.options))
        for method in service.method:
            yield from _within(self._method(method))
        yield "}"

    def _method(self, method: MethodDescriptorProto) -> Iterator[str]:
        takes = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        gives = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        head, options = f"rpc {method.name} ({takes}) returns ({gives})", list(self._option_lines(method.options))
        # Empty braces are written, too: they are an option without content.
        yield from (f"{head} {{", *_within(options), "}") if method.HasField("options") else (f"{head};",)

    def _option_lines(self, options: Message | None) -> Iterator[str]:
        return (f"option {said};" for said in self._options(options))

    def _in_brackets(self, options: Message, own: Iterable[str] = ()) -> str:
        said = [*own, *self._options(options)]
        return f" [{', '.join(said)}]" if said else ""

    def _options(self, options: Message | None) -> Iterator[str]:
        """Yield options, including custom ones, which the file's imports define."""
        if options is None or not options.ByteSize():
            return
        try:
            kind = self._known.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            known = options
        else:
            known = message_factory.GetMessageClass(kind).FromString(options.SerializeToString())
        for field, value in known.ListFields():
            name = f"(.{field.full_name})" if field.is_extension else field.name
            for each in value if field.is_repeated else [value]:
                if field.name != "map_entry":
                    yield f"{name} = {self._option_value(field, each)}"

    def _option_value(self, field: FieldDescriptor, value: Any) -> str:
        if field.message_type is not None:
            said = text_format.MessageToString(value, as_one_line=True, as_utf8=True, descriptor_pool=self._known)
            return f"{{ {said} }}"
        if field.enum_type is not None:
            return str(field.enum_type.values_by_number[value].name)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, bytes):
            return f'"{text_encoding.CEscape(value, as_utf8=False)}"'
        return quoted(value) if isinstance(value, str) else repr(value)


_Block = tuple[str | None, Message | None, list[_Field]]
"""Head, options and fields; a field that stands alone has neither head nor options."""


def _blocks(
    fields: Sequence[_Field], oneofs: Sequence[OneofDescriptorProto], extensions: Sequence[_Field]
) -> Iterator[_Block]:
    for index, members in groupby(fields, lambda field: field.oneof_index if _in_oneof(field) else None):
        if index is None:
            yield from ((None, None, [field]) for field in members)
        else:
            yield f"oneof {oneofs[index].name}", oneofs[index].options, list(members)
    for extendee, members in groupby(extensions, lambda field: field.extendee):
        yield f"extend {extendee}", None, list(members)


def _in_oneof(field: _Field) -> bool:
    """Tell whether a field is in a oneof; the compiler puts an optional proto3 field into a oneof of its own."""
    return field.HasField("oneof_index") and not field.proto3_optional


def _own_message(field: _Field, messages: Mapping[str, DescriptorProto]) -> DescriptorProto | None:
    """Return the message of a group or of a map's entries, for which the text has no statement."""
    found = messages.get(field.type_name.rpartition(".")[2])
    if found is None or not (field.type == _Field.TYPE_GROUP or found.options.map_entry):
        return None
    return found


def _type(field: _Field) -> str:
    return field.type_name or _Field.Type.Name(field.type).removeprefix("TYPE_").lower()


def _range(first: int, last: int) -> str:
    if last + 1 in _MOST:
        return f"{first} to max"
    return str(first) if first == last else f"{first} to {last}"
