"""`treeline export`: the control plane's state as a file that `treeline apply -f` accepts.

Every field is written, also default values: so `treeline diff` finds whatever is changed later, and the file has
the same meaning where defaults differ. Not in the file: passwords, tokens, targets and settings of distributors,
decisions about grants.

Exit codes: 0 ok, 1 refused or not there, 2 bad input. The file goes to stdout; notes about what it lacks go to
stderr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell import kinds
from backend.commands.shell.kinds import Kind
from backend.commands.shell.rest import answer, fail, pages, rest_client
from backend.domain.topics.stream_settings import CLUSTER_DEFAULT

if TYPE_CHECKING:
    import httpx2

FIELDS: Mapping[Kind, tuple[str, ...]] = {
    kinds.CLUSTER: (
        "bootstrap_servers",
        "zone",
        "topic_format",
        "group_format",
        "subject_format",
        "properties",
        "defaults",
    ),
    kinds.TENANT: (),
    kinds.INSTANCE: ("tree",),
    kinds.ENVIRONMENT: ("margin_seconds", "offset_mode", "record_name_subjects"),
    kinds.STREAM: (
        "partitions",
        "replication_factor",
        "min_insync_replicas",
        "retention_ms",
        "cleanup_policy",
        "max_message_bytes",
        "distributed",
        "config",
    ),
    kinds.APPLICATION: (
        "groups",
        "produces",
        "consumes",
        "producer_bytes_per_second",
        "consumer_bytes_per_second",
        "request_percentage",
    ),
    kinds.USER: ("role", "disabled", "tenants"),
    kinds.WEBHOOK: ("url", "events", "enabled"),
}
"""Exported fields of each kind: all that the REST API accepts when the resource is created."""

_LEVELS = ((kinds.TENANT, "instances"), (kinds.INSTANCE, "environments"), (kinds.ENVIRONMENT, ""))
_MASK = "***"
_LONGEST_LINE = 1_000_000  # a stream is one line, so that a diff of two files shows its name
_SHOWN = 10
_NOT_GRANTED = (
    "Not granted; requested again wherever the file is applied, and granted at once if the user may grant it"
)
_MISSING = "Named by applications, but not declared; `apply` refuses new applications that name such streams"

_INTRODUCTION = """\
# Written by `treeline export`, for `treeline diff -f` and `treeline apply -f`.
# Not included: passwords, tokens, secrets of webhooks, schemas, targets and settings of distributors. Access of
# applications is requested where this is applied, and granted at once if the user who applies it may grant it.
"""
_ABOUT_SECRETS = """\
# Secrets of clusters are shown as ***, which leaves them unchanged where this was exported. To apply it elsewhere,
# replace them by references, in quotes: '${env:NAME}' or '${file:/path}'.
"""

Place = Annotated[
    str,
    typer.Argument(
        help="acme, acme/retail or acme/retail/prod; default: everything, including clusters, tree and users."
    ),
]
At = Annotated[int | None, typer.Option("--at", min=0, help="As of this position of the event log.")]


def register(app: typer.Typer) -> None:
    """Mount the command on the program."""
    app.command()(export)


def export(place: Place = "", at: At = None) -> None:
    """Write the current state as a YAML file that `apply -f` and `diff -f` accept.

    Clusters, the tree, users and webhooks are left out for a place, and if you are not permitted to read them.
    """
    names = place.split("/") if place else []
    if len(names) > len(_LEVELS):
        fail(f"export: name a place as TENANT, TENANT/INSTANCE or TENANT/INSTANCE/ENVIRONMENT, not {place}.", 2)
    with rest_client() as client:
        reading = Reading(client, at)
        document = reading.document(names)
    typer.echo(text_of(document), nl=False)
    for note in reading.notes():
        typer.echo(note, err=True)


def text_of(document: Mapping[str, Any]) -> str:
    """Return the text of the file: one line for each resource without children."""
    import yaml

    # libyaml's writer is ten times faster, which matters for ten thousand streams.
    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """Dumper with a representer of its own."""

    def on_one_line(dumper: Any, content: _OneLine) -> Any:
        return dumper.represent_mapping("tag:yaml.org,2002:map", content.items(), flow_style=True)

    Dumper.add_representer(_OneLine, on_one_line)
    text = yaml.dump(
        document,
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_LONGEST_LINE,
        default_flow_style=None,
    )
    clusters = document.get("clusters", {}).values()
    masked = any(_MASK in cluster["properties"].values() for cluster in clusters)
    return f"{_INTRODUCTION}{_ABOUT_SECRETS if masked else ''}{text}"


class _OneLine(dict[str, Any]):
    """Mapping that is written on one line of the file, so that a diff of two files shows its name."""


class Reading:
    """One export of the control plane, as of one position if the caller may read the log's head.

    Call `document` first; afterwards `notes` holds remarks for the user.
    """

    def __init__(self, client: httpx2.Client, at: int | None) -> None:
        self._client = client
        self._params: dict[str, Any] = {} if at is None else {"at": at}
        self._hidden: str | None = None
        self._environments: set[str] = set()
        self._streams: set[str] = set()
        self._grants: list[tuple[str, str, dict[str, Any]]] = []

    def document(self, names: list[str]) -> dict[str, Any]:
        """Return the file's sections: everything, or what is at a place. Exits if the control plane refuses."""
        # Needs the same permission as the estate's sections, and fixes the position of all pages: pages of
        # different moments could yield an application that names a stream that does not exist.
        head = self._client.get("/events/head")
        if head.status_code == 403:
            self._hidden = None if names else head.json()["detail"]
        else:
            self._params = {"at": answer(head)["position"], **self._params}
            if not names:
                return {**self._estate(), **_if_any("tenants", self._level(0, [], [])), **self._estate_wide()}
        return _if_any("tenants", self._level(0, [], names))

    def notes(self) -> list[str]:
        """Return notes for the user: what the file lacks, and what in it needs attention."""
        hidden = (
            [] if self._hidden is None else [f"Left out: clusters, the tree, users and webhooks; {self._hidden}."]
        )
        not_granted = [
            f"{application}: {operation} {grant['stream']} ({grant['state']})"
            for application, operation, grant in self._grants
            if grant["state"] != "granted"
        ]
        missing = [
            f"{application}: {grant['stream']}"
            for application, _, grant in self._grants
            if grant["stream"] not in self._streams and grant["stream"].rpartition("/")[0] in self._environments
        ]
        return [*hidden, *_listed(_NOT_GRANTED, not_granted), *_listed(_MISSING, missing)]

    def _estate(self) -> dict[str, Any]:
        def shown(row: dict[str, Any]) -> dict[str, Any]:
            # Without it the file could not be applied while this cluster is down.
            offline = {"accept_offline": True} if row["state"] == "offline" else {}
            return {**_fields(kinds.CLUSTER, row), "defaults": row["defaults_set"], **offline}

        found = _if_any("clusters", {row["name"]: shown(row) for row in self._list(kinds.CLUSTER)})
        for row in self._list(kinds.TREE):
            found |= {"primary": row["primary_cluster"], "tree": row["root"]}
        return found

    def _estate_wide(self) -> dict[str, Any]:
        """Return users and webhooks."""
        found: dict[str, Any] = {}
        for kind in (kinds.USER, kinds.WEBHOOK):
            found |= _if_any(kind.plural, {row["name"]: _fields(kind, row) for row in self._list(kind)})
        return found

    def _level(self, depth: int, within: list[str], names: list[str]) -> dict[str, Any]:
        """Return name -> content of the tenants, instances or environments at a place, or of the named one."""
        kind, children = _LEVELS[depth]
        if names:
            path = kind.path("/".join([*within, names[0]]))
            rows = [answer(self._client.get(path, params=self._params))]
        else:
            rows = self._list(kind, "/".join(within))
        found = {}
        for row in rows:
            here = [*within, row["name"]]
            inner = _if_any(children, self._level(depth + 1, here, names[1:])) if children else self._inside(here)
            found[row["name"]] = {**_fields(kind, row), **inner}
        return found

    def _inside(self, names: list[str]) -> dict[str, Any]:
        """Return an environment's streams and applications."""
        environment = "/".join(names)
        self._environments.add(environment)
        streams = {}
        for row in self._list(kinds.STREAM, environment):
            content = _fields(kinds.STREAM, row)
            content = {name: CLUSTER_DEFAULT if value is None else value for name, value in content.items()}
            streams[row["name"]] = _OneLine(content)
            self._streams.add(row["stream"])
        applications = {
            row["name"]: self._application(row, environment) for row in self._list(kinds.APPLICATION, environment)
        }
        return _if_any("streams", streams) | _if_any("applications", applications)

    def _application(self, row: dict[str, Any], environment: str) -> dict[str, Any]:
        content = _fields(kinds.APPLICATION, row)
        for field, operation in (("produces", "produce"), ("consumes", "consume")):
            content[field] = [grant["stream"].removeprefix(f"{environment}/") for grant in row[field]]
            self._grants += [(row["application"], operation, grant) for grant in row[field]]
        return content

    def _list(self, kind: Kind, place: str = "") -> list[dict[str, Any]]:
        return pages(self._client, kind.collection(place), {**self._params, "limit": 1000})


def _listed(what: str, found: list[str]) -> list[str]:
    if not found:
        return []
    more = [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return [f"{what}:", *(f"  {each}" for each in found[:_SHOWN]), *more]


def _fields(kind: Kind, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in FIELDS[kind]}


def _if_any(section: str, content: dict[str, Any]) -> dict[str, Any]:
    return {section: content} if content else {}
