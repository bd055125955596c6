"""`treeline schemas register`, `find`, `check`, `delete`: schemas from files, and deletions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from backend.commands.schemas.registry_options import ClusterOption, Subject
from backend.commands.schemas.schema_files import Normalize, References, SchemaFile, TypeOption, read_schema
from backend.commands.schemas.schemas_reading import version_given, with_type
from backend.commands.shell.dry_run import DryRun, preview, say, say_if_dry
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, listed, show
from backend.commands.shell.registry import registry_of
from backend.commands.shell.rest import fail, rest_client

_FOUND_COLUMNS = ("subject", "version", "id", "schemaType")


def register(program: typer.Typer) -> None:
    """Add the commands."""
    program.command("register")(register_)
    program.command()(find)
    program.command()(check)
    program.command()(delete)


def _version_or_none(text: str | None) -> str | None:
    return None if text is None else version_given(text)


def register_(
    subject: Subject,
    file: SchemaFile,
    kind: TypeOption = None,
    references: References = None,
    normalize: Normalize = False,
    schema_id: Annotated[
        int | None, typer.Option("--id", min=1, help="In mode IMPORT: its id in the other registry.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="In mode IMPORT: its version in the other registry.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="In mode IMPORT: accept an id that is far above all others.")
    ] = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Register a schema as a subject's next version, and print its id; a schema that is registered stays as it is.

    Refused with 3 if it is incompatible with the subject's versions (`treeline schemas level` shows the level).
    """
    body = read_schema(file, kind, references)
    numbers = {name: value for name, value in (("id", schema_id), ("version", version)) if value is not None}
    params: dict[str, Any] = {"normalize": normalize, "force": force, **preview(dry_run)}
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = registry.change("POST", "subjects", subject, "versions", body={**body, **numbers}, **params)
    if found:
        show(found, Form.JSON if as_json else form, ("id",), [found])
    say_if_dry(dry_run)
    if dry_run and found:
        typer.echo(f"{subject} has this schema already.", err=True)


def find(
    subject: Subject,
    file: SchemaFile,
    kind: TypeOption = None,
    references: References = None,
    normalize: Normalize = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include soft-deleted versions.")] = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Find the version of a subject that has the schema of a file; exits with 1 if none has."""
    body = read_schema(file, kind, references)
    with rest_client() as client:
        registry = registry_of(client, cluster)
        found = with_type(registry.ask("subjects", subject, body=body, normalize=normalize, deleted=deleted))
    show(found, Form.JSON if as_json else form, _FOUND_COLUMNS, [found])


def check(
    subject: Subject,
    file: SchemaFile,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            callback=_version_or_none,
            help="Check only this version, a number or latest; left out: the versions that the level requires.",
        ),
    ] = None,
    kind: TypeOption = None,
    references: References = None,
    normalize: Normalize = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Check whether a file's schema is compatible with a subject's versions; exits with 1 if it is not."""
    body = read_schema(file, kind, references)
    path = ("compatibility", "subjects", subject, "versions", *(() if version is None else (version,)))
    with rest_client() as client:
        found = registry_of(client, cluster).ask(*path, body=body, verbose=True, normalize=normalize)
    rows = [{"is_compatible": found["is_compatible"], "messages": "\n".join(found["messages"])}]
    show(found, Form.JSON if as_json else form, ("is_compatible", "messages"), rows)
    if not found["is_compatible"]:
        raise typer.Exit(Code.NOT_SO)


def delete(
    subject: Subject,
    version: Annotated[
        str | None,
        typer.Argument(callback=_version_or_none, help="A number, or latest; left out: the whole subject."),
    ] = None,
    permanent: Annotated[
        bool,
        typer.Option(
            "--permanent", help="Delete soft-deleted versions permanently; prompts for the subject's name."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Delete a subject, or a version of it: first a soft delete, which keeps ids readable, then with --permanent.

    Prints the versions that are deleted.
    """
    path = ("subjects", subject, *(() if version is None else ("versions", version)))
    what = subject if version is None else f"{subject}, version {version},"
    if permanent and not yes and not dry_run:
        typed = typer.prompt(f"Type the name of the subject ({subject}) to delete {what} permanently", err=True)
        if typed != subject:
            fail("Nothing was deleted: the name does not match.")
    with rest_client() as client:
        registry = registry_of(client, cluster)
        gone = registry.change("DELETE", *path, permanent=permanent, **preview(dry_run))
    rows = [{"version": number} for number in (gone if isinstance(gone, list) else [gone])]
    show(listed(rows), Form.JSON if as_json else form, ("version",), rows)
    say(f"{what.rstrip(',')} is {'permanently deleted' if permanent else 'soft-deleted'}.", dry_run)
