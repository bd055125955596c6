"""Routes of a registry: the endpoints of Confluent's API, below `/registries/{cluster}`.

A handler gets the call and the variable parts of the path. A handler that waits or may parse a schema is marked,
since it must not run on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any

from backend.program_version import VERSION
from backend.registry import deleting, permitted, reading, refusals, registering, settings_changes
from backend.registry.calls import Call, Text, subject_name
from backend.registry.formats.schema_types import KINDS
from backend.registry.records import ALL_CONTEXTS, DEFAULT_CONTEXT, SchemaVersion, plain_subject

_HIGHEST_ID = 2**31 - 1


class Work(Enum):
    """Way in which a handler is run."""

    LOOK = auto()
    """The handler runs on the event loop: the answer stays the same until the catalog changes."""
    PARSE = auto()
    """The handler runs on a thread, because it may parse."""
    THREAD = auto()
    """The handler runs on a thread, and takes the catalog's lock itself."""


@dataclass(frozen=True)
class Route:
    """A handler and the way it is run."""

    work: Work
    handle: Callable[..., Any]


# --- schemas by id


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:12]) > _HIGHEST_ID:
        raise refusals.RegistryError(404, f"{text[:20]!r} is not a schema id")
    return int(text)


def _asked_subject(call: Call, schema_id: str) -> str | None:
    """Return the parameter `subject`, of the default context.

    Raises RegistryError for another context: it has ids of its own, and none is known here.
    """
    named = call.query.get("subject")
    plain = None if named is None else plain_subject(named)
    if named is not None and plain is None:
        raise refusals.schema_unknown(_id(schema_id))
    return None if plain is None else plain.removeprefix(ALL_CONTEXTS)


def _schema(call: Call, schema_id: str) -> Any:
    with_highest = call.flag("fetchMaxId")
    subject = _asked_subject(call, schema_id)
    return reading.schema_by_id(
        call.catalog, _id(schema_id), subject, with_highest=with_highest, formatted=call.formatted
    )


def _schema_text(call: Call, schema_id: str) -> Text:
    return Text(_schema(call, schema_id)["schema"])


def _schema_subjects(call: Call, schema_id: str) -> Any:
    _asked_subject(call, schema_id)
    return call.page(reading.subjects_by_id(call.catalog, _id(schema_id), deleted=call.flag("deleted")))


def _schema_versions(call: Call, schema_id: str) -> Any:
    _asked_subject(call, schema_id)
    return call.page(reading.versions_by_id(call.catalog, _id(schema_id), deleted=call.flag("deleted")))


def _schemas(call: Call) -> Any:
    prefix = _prefix(call)
    found = reading.schemas(
        call.catalog, prefix, deleted=call.flag("deleted"), latest_only=call.flag("latestOnly")
    )
    return call.page(found)


def _prefix(call: Call) -> str:
    """Return the prefix of subjects' names; all contexts, and the default one, are this one."""
    prefix = call.query.get("subjectPrefix", "")
    return prefix.removeprefix(ALL_CONTEXTS if prefix.startswith(ALL_CONTEXTS) else DEFAULT_CONTEXT)


# --- subjects


def _subjects(call: Call) -> Any:
    found = reading.subjects(
        call.catalog, _prefix(call), deleted=call.flag("deleted"), only_deleted=call.flag("deletedOnly")
    )
    return call.page(found)


def _look_up(call: Call, subject: str) -> Any:
    wanted, deleted = call.wanted(), call.flag("deleted")
    found = _found(call, subject, wanted, deleted=deleted)
    with call.sharing():
        if found is not None:
            return _shown(call, found)
        if not call.catalog.versions(subject, deleted=deleted):
            raise refusals.subject_unknown(subject)
        raise refusals.schema_unknown()


def _found(call: Call, subject: str, wanted: registering.Wanted, *, deleted: bool = False) -> SchemaVersion | None:
    """Return the version with a schema; an exact match needs no parsing, and does not wait for others' parsing."""
    lock = call.registry.mirror.lock
    with lock.reading():
        found = registering.find_as_sent(call.catalog, subject, wanted, deleted=deleted)
    if found is not None:
        return found
    with lock.parsing():
        return registering.find(call.catalog, call.parser, subject, wanted, deleted=deleted)


def _delete_subject(call: Call, subject: str) -> Any:
    permanent = call.flag("permanent")
    _check_delete(call, subject)
    return call.write(lambda catalog, _: deleting.delete_subject(catalog, subject, permanent=permanent))


def _check_delete(call: Call, subject: str) -> None:
    if call.scope is not None:
        with call.registry.mirror.lock.reading():
            call.scope.check_delete(call.catalog, subject)


def _versions(call: Call, subject: str) -> Any:
    found = reading.numbers(
        call.catalog,
        subject,
        deleted=call.flag("deleted"),
        only_deleted=call.flag("deletedOnly"),
        as_negative=call.flag("deletedAsNegative"),
    )
    return call.page(found)


def _register(call: Call, subject: str) -> Any:
    wanted = call.wanted()
    decide = permitted.register(call, subject, wanted)
    if wanted.id is None and wanted.version is None:
        # Most calls, from starting producers, register a schema that exists; that is no write, and is answered on
        # every cluster, also while the cluster is away.
        there = _found(call, subject, wanted)
        if there is not None:
            return {"id": there.id}
    answer = call.write(decide)
    # The next id would reveal other tenants' activity, and may be taken by the time of the write.
    return {} if call.is_dry_run else answer


def _version(call: Call, subject: str, number: str) -> Any:
    found = reading.version_of(call.catalog, subject, number, deleted=call.flag("deleted"))
    return _shown(call, found)


def _shown(call: Call, version: SchemaVersion) -> dict[str, Any]:
    return reading.version_shown(replace(version, content=call.formatted(version.content)))


def _version_text(call: Call, subject: str, number: str) -> Text:
    return Text(_version(call, subject, number)["schema"])


def _referring(call: Call, subject: str, number: str) -> Any:
    return call.page(reading.referring_ids(call.catalog, subject, number, deleted=call.flag("deleted")))


def _delete_version(call: Call, subject: str, number: str) -> Any:
    permanent = call.flag("permanent")
    _check_delete(call, subject)
    return call.write(lambda catalog, _: deleting.delete_version(catalog, subject, number, permanent=permanent))


# --- compatibility


def _compatible(call: Call, subject: str) -> Any:
    return _checked(call, subject, call.catalog.versions(subject))


def _compatible_with(call: Call, subject: str, number: str) -> Any:
    is_latest = reading.version_number(number) == reading.LATEST
    if is_latest and not call.catalog.versions(subject):
        return _checked(call, subject, [])
    if not is_latest and not call.catalog.versions(subject):
        raise refusals.version_unknown(int(number))
    return _checked(call, subject, [reading.version_of(call.catalog, subject, number, deleted=False)])


def _checked(call: Call, subject: str, against: list[Any]) -> Any:
    verbose = call.flag("verbose")
    wanted = call.wanted()
    try:
        problems = registering.compatible(call.catalog, call.parser, subject, wanted, against)
    except refusals.RegistryError as refusal:
        # As in Confluent's registry: an invalid schema is incompatible. Any other refusal is no verdict.
        if not verbose or refusal.code != refusals.SCHEMA_INVALID:
            raise
        problems = [refusal.message]
    return {"is_compatible": not problems, **({"messages": problems} if verbose else {})}


# --- configuration and modes, of a subject or of all


def _config(call: Call, subject: str | None = None) -> Any:
    return reading.config(call.catalog, subject, or_global=call.flag("defaultToGlobal"))


def _set_config(call: Call, subject: str | None = None) -> Any:
    return call.write(permitted.set_config(call, subject, call.body()))


def _delete_config(call: Call, subject: str | None = None) -> Any:
    return call.write(permitted.delete_config(call, subject))


def _mode(call: Call, subject: str | None = None) -> Any:
    return reading.mode(call.catalog, subject, or_global=call.flag("defaultToGlobal"))


def _set_mode(call: Call, subject: str | None = None) -> Any:
    wanted, force = call.body().get("mode"), call.flag("force")
    permitted.check_settings(call, subject, wanted)
    return call.write(lambda catalog, _: settings_changes.set_mode(catalog, subject, wanted, force=force))


def _delete_mode(call: Call, subject: str | None = None) -> Any:
    permitted.check_settings(call, subject)
    return call.write(lambda catalog, _: settings_changes.delete_mode(catalog, subject))


# --- about the registry


def _always(answer: Any, call: Call) -> Any:
    return answer


def _cluster_id(call: Call) -> Any:
    clusters = {
        "kafka-cluster": call.registry.mirror.endpoint.kafka_cluster_id or "",
        "schema-registry-cluster": call.registry.mirror.endpoint.name,
    }
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


def _server_version(call: Call) -> Any:
    return {"version": VERSION, "commitId": ""}


def _look(handle: Callable[..., Any]) -> Route:
    return Route(Work.LOOK, handle)


def _parse(handle: Callable[..., Any]) -> Route:
    return Route(Work.PARSE, handle)


def _thread(handle: Callable[..., Any]) -> Route:
    return Route(Work.THREAD, handle)


_OF_SETTINGS = {"GET": _look(_config), "PUT": _thread(_set_config), "DELETE": _thread(_delete_config)}
_OF_MODES = {"GET": _look(_mode), "PUT": _thread(_set_mode), "DELETE": _thread(_delete_mode)}
ROUTES: dict[str, dict[str, Route]] = {
    "": {"GET": _look(partial(_always, {}))},
    "schemas": {"GET": _look(_schemas)},
    "schemas/types": {"GET": _look(partial(_always, KINDS))},
    "schemas/ids/{}": {"GET": _look(_schema)},
    "schemas/ids/{}/schema": {"GET": _look(_schema_text)},
    "schemas/ids/{}/subjects": {"GET": _look(_schema_subjects)},
    "schemas/ids/{}/versions": {"GET": _look(_schema_versions)},
    "subjects": {"GET": _look(_subjects)},
    "subjects/{subject}": {"POST": _thread(_look_up), "DELETE": _thread(_delete_subject)},
    "subjects/{subject}/versions": {"GET": _look(_versions), "POST": _thread(_register)},
    "subjects/{subject}/versions/{}": {"GET": _look(_version), "DELETE": _thread(_delete_version)},
    "subjects/{subject}/versions/{}/schema": {"GET": _look(_version_text)},
    "subjects/{subject}/versions/{}/referencedby": {"GET": _look(_referring)},
    "compatibility/subjects/{subject}/versions": {"POST": _parse(_compatible)},
    "compatibility/subjects/{subject}/versions/{}": {"POST": _parse(_compatible_with)},
    "config": _OF_SETTINGS,
    "config/{subject}": _OF_SETTINGS,
    "mode": _OF_MODES,
    "mode/{subject}": _OF_MODES,
    "contexts": {"GET": _look(partial(_always, ["."]))},
    "v1/metadata/id": {"GET": _look(_cluster_id)},
    "v1/metadata/version": {"GET": _look(_server_version)},
}
"""Path -> method -> route; `{subject}` is a subject's name, `{}` any other part."""

_BY_LENGTH: dict[int, list[tuple[list[str], dict[str, Route]]]] = {}
for _path, _methods in ROUTES.items():
    _parts = _path.split("/") if _path else []
    _BY_LENGTH.setdefault(len(_parts), []).append((_parts, _methods))


def find(method: str, parts: list[str]) -> tuple[Route, list[str]]:
    """Return the route of a path, and its variable parts. Raises RegistryError (404, 405, invalid subject)."""
    for pattern, methods in _BY_LENGTH.get(len(parts), ()):
        if all(wanted.startswith("{") or wanted == part for wanted, part in zip(pattern, parts, strict=True)):
            if method not in methods:
                allowed = ", ".join(sorted(methods))
                raise refusals.RegistryError(
                    405, f"Method not allowed; this path supports {allowed}", headers={"Allow": allowed}
                )
            given = [
                subject_name(part) if wanted == "{subject}" else part
                for wanted, part in zip(pattern, parts, strict=True)
                if wanted.startswith("{")
            ]
            return methods[method], given
    raise refusals.RegistryError(404, "Not found")
