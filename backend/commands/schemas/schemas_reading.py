"""`treeline schemas subjects`, `list`, `versions`, `show`, `show-id`, `referring`: reading a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from backend.commands.schemas.registry_options import ClusterOption, Subject
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, fields_of, listed
from backend.commands.shell.registry import Registry, present_registry
from backend.commands.shell.rest import fail
from backend.commands.shell.watch import WatchCommand, WatchOption

LATEST = "latest"
_SCHEMA_COLUMNS = ("subject", "version", "id", "schemaType", "deleted")

Deleted = Annotated[bool, typer.Option("--deleted", help="Include soft-deleted ones.")]
Prefix = Annotated[str, typer.Option(help="Only subjects whose names begin with this.")]
Serialized = Annotated[
    bool, typer.Option("--serialized", help="A Protobuf schema as its FileDescriptorProto, in base64.")
]
TextOnly = Annotated[bool, typer.Option("--text", help="Print the schema alone, unchanged, such as for a file.")]


def version_given(text: str) -> str:
    """Return a version as the registry takes it in a path. Raises BadParameter, which ends the program with 2."""
    if text != LATEST and not (text.isascii() and text.isdigit() and int(text) > 0):
        raise typer.BadParameter(f"{text!r} is not a version: give a number from 1, or {LATEST}.")
    return text


Version = Annotated[str, typer.Argument(help=f"A number, or {LATEST}.", callback=version_given)]


def register(program: typer.Typer) -> None:
    """Add the commands."""
    program.command(cls=WatchCommand)(subjects)
    program.command("list", cls=WatchCommand)(list_)
    program.command(cls=WatchCommand)(versions)
    program.command()(show)
    program.command()(show_id)
    program.command()(referring)


def subjects(
    prefix: Prefix = "",
    deleted: Deleted = False,
    cluster: ClusterOption = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List subjects."""

    def look(registry: Registry) -> Shown:
        names = registry.get("subjects", subjectPrefix=prefix, deleted=deleted)
        gone = set(registry.get("subjects", subjectPrefix=prefix, deletedOnly=True)) if deleted else set()
        rows = [{"subject": name, "deleted": name in gone} for name in names]
        return _listed(rows, ("subject", "deleted") if deleted else ("subject",))

    present_registry(look, cluster, Form.JSON if as_json else form, every)


def list_(
    prefix: Prefix = "",
    latest: Annotated[bool, typer.Option("--latest", help="Only the latest version of each subject.")] = False,
    deleted: Deleted = False,
    cluster: ClusterOption = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List every version of all subjects with its id and type; JSON and YAML include the schemas."""

    def look(registry: Registry) -> Shown:
        found = registry.get("schemas", subjectPrefix=prefix, latestOnly=latest, deleted=deleted)
        return _listed(list(map(with_type, found)), _SCHEMA_COLUMNS if deleted else _SCHEMA_COLUMNS[:-1])

    present_registry(look, cluster, Form.JSON if as_json else form, every)


def versions(
    subject: Subject,
    deleted: Deleted = False,
    cluster: ClusterOption = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List a subject's versions."""

    def look(registry: Registry) -> Shown:
        # A negative number marks a soft-deleted version.
        numbers = registry.get("subjects", subject, "versions", deleted=deleted, deletedAsNegative=deleted)
        rows = [{"version": abs(number), "deleted": number < 0} for number in numbers]
        return _listed(rows, ("version", "deleted") if deleted else ("version",))

    present_registry(look, cluster, Form.JSON if as_json else form, every)


def show(
    subject: Subject,
    version: Version = LATEST,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include a soft-deleted version.")] = False,
    serialized: Serialized = False,
    text: TextOnly = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a version of a subject with its id and schema."""

    def look(registry: Registry) -> Shown:
        path = ("subjects", subject, "versions", version)
        return fields_of(with_type(registry.get(*path, deleted=deleted, format=_format(serialized))))

    _present_schema(look, cluster, Form.JSON if as_json else form, text=text)


def show_id(
    schema_id: Annotated[int, typer.Argument(min=1, help="Schema id, as in records.")],
    serialized: Serialized = False,
    text: TextOnly = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show the schema with an id, deleted or not, and the versions that have it."""

    def look(registry: Registry) -> Shown:
        path = ("schemas", "ids", str(schema_id))
        found = with_type(registry.get(*path, format=_format(serialized)))
        used = registry.get(*path, "versions", deleted=True)
        return fields_of({"id": schema_id, "versions": used, **found})

    _present_schema(look, cluster, Form.JSON if as_json else form, text=text)


def referring(
    subject: Subject,
    version: Version = LATEST,
    deleted: Deleted = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List the ids of schemas that reference a version, and must be deleted before it."""

    def look(registry: Registry) -> Shown:
        ids = registry.get("subjects", subject, "versions", version, "referencedby", deleted=deleted)
        return _listed([{"id": each} for each in ids], ("id",))

    present_registry(look, cluster, Form.JSON if as_json else form, None)


def with_type(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its type, which the registry leaves out for Avro."""
    kind = {"schemaType": found.get("schemaType", "AVRO")}
    schema = {"schema": found["schema"]}
    return {**{name: value for name, value in found.items() if name not in schema}, **kind, **schema}


def _present_schema(look: Any, cluster: str | None, form: Form, *, text: bool) -> None:
    if text and form is not Form.TABLE:
        fail("--text prints the schema unchanged: leave out the output format.", Code.BAD_INPUT)

    def as_text(registry: Registry) -> Shown:
        schema: str = look(registry).answer["schema"]
        return Shown(answer=schema, columns=(), rows=(), tables=lambda _: typer.echo(schema))

    present_registry(as_text if text else look, cluster, form, None)


def _format(serialized: bool) -> str | None:
    return "serialized" if serialized else None


def _listed(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Shown:
    return Shown(answer=listed(rows), columns=columns, rows=rows)
