"""`treeline up`, `down`, `status`, `logs` and `treeline estate ...`: the local estate on the command line.

Exit codes: those of `exit_codes`; 1: something is not ready, or the verification failed. Data goes to stdout,
messages to stderr. Imports happen inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, console, show
from backend.commands.shell.watch import WatchCommand, WatchOption, follow
from backend.locations import ESTATES
from backend.settings import settings

if TYPE_CHECKING:
    from rich.console import Console

    from backend.estate.boot import Booted
    from backend.estate.home import Home

DEFAULT_ESTATE = ESTATES / "unbalanced.yaml"

OPEN_REGISTRIES = (
    "Registries: open without a token to all programs on this machine; TREELINE_REGISTRY_OPEN=false closes them"
)

estate_app = typer.Typer(
    help="The running estate: add and remove brokers, inject faults on the links to its clusters.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Mount the estate's commands on the program."""
    app.command()(up)
    app.command()(down)
    app.command(cls=WatchCommand)(status)
    app.command()(logs)
    app.add_typer(estate_app, name="estate")


def up(
    estate: Annotated[Path, typer.Option(help="Estate file (YAML).")] = DEFAULT_ESTATE,
    verify: Annotated[bool, typer.Option(help="Verify distribution after the start.")] = True,
    spare_ports: Annotated[
        bool, typer.Option("--spare-ports", help="Use spare ports instead of the default ones.")
    ] = False,
    while_pid: Annotated[
        int | None, typer.Option("--while-pid", help="Stop when this process ends, e.g. a test run.")
    ] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Start or resume the local estate, and verify that it distributes records."""
    from backend.estate import boot
    from backend.estate.added_brokers import AddedDoNotFit
    from backend.estate.document import EstateInvalid, read_estate
    from backend.estate.programs.jars import JavaMissing
    from backend.estate.programs.postgres import PostgresMissing
    from backend.estate.programs.valkey_server import ValkeyMissing

    started = time.monotonic()

    def progress(text: str) -> None:
        typer.echo(f"{time.monotonic() - started:6.1f} s  {text}", err=True)

    try:
        parsed = read_estate(estate)
        wishes = boot.Wishes(spare_ports=spare_ports, verify=verify, while_pid=while_pid)
        booted = boot.up(_home(), parsed, progress, wishes)
    except EstateInvalid as error:
        raise _refuse(str(error), 2) from None
    except (boot.AnotherEstateRuns, AddedDoNotFit) as error:
        raise _refuse(str(error), 3) from None
    except (JavaMissing, PostgresMissing, ValkeyMissing, boot.StartFailed) as error:
        raise _refuse(str(error), 1) from None
    except KeyboardInterrupt:
        raise _refuse(
            "The estate continues to start; see `treeline status`, or stop it with `treeline down`.", 130
        ) from None
    _tell_troubles(booted)
    form = Form.JSON if as_json else form
    if form is Form.TABLE:
        _show_booted(booted)
    else:
        from backend.estate.plan import registries_are_open
        from backend.estate.running import status as read_status

        answer = read_status(booted.layout.home)
        if registries_are_open():
            typer.echo(OPEN_REGISTRIES, err=True)
        show({**answer, "verification": booted.verification, "login_link": booted.login_link}, form, (), [])
    progress("ready" if booted.ok else "not ready")
    if not booted.ok:
        raise typer.Exit(1)


def down(
    wipe: Annotated[bool, typer.Option(help="Also delete the home's data, logs and secrets.")] = False,
) -> None:
    """Stop the local estate; its data is kept for the next `up`."""
    from backend.estate import boot

    boot.down(_home(), lambda text: typer.echo(text, err=True), wipe=wipe)


def status(every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show clusters, processes and their memory."""
    from backend.estate.running import status as read_status

    def look() -> Shown:
        answer = read_status(_home())
        return Shown(answer=answer, columns=(), rows=[], tables=lambda on: _show_status(answer, on))

    form = Form.JSON if as_json else form
    if every is not None:
        follow(look, form, every)
    look().write(form)


def logs(
    name: Annotated[str, typer.Argument(help="Process as `treeline status` names it, e.g. api.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of lines from the end.")] = 200,
) -> None:
    """Print the log of one process."""
    home = _home()
    path = home.log(name)
    if not path.is_file():
        known = ", ".join(sorted(p.stem.replace(".", ":") for p in home.logs.glob("*.log"))) or "none yet"
        raise _refuse(f"There is no log of {name!r} in {home.logs}; there are: {known}.", 2)
    with path.open(errors="replace") as file:
        from collections import deque

        typer.echo("".join(deque(file, maxlen=lines)), nl=False)
        while follow:
            if part := file.read():
                typer.echo(part, nl=False)
            elif path.stat().st_size < file.tell():  # truncated to its limit: continue from the new start
                file.seek(0)
            else:
                time.sleep(0.2)


class Direction(StrEnum):
    """Direction in which a cut loses packets."""

    BOTH = "both"
    TO_BROKER = "to-broker"
    TO_CLIENT = "to-client"


ClusterName = Annotated[str, typer.Argument(help="Cluster of the estate, behind the proxy.")]


@estate_app.command()
def cut(
    cluster: ClusterName,
    direction: Annotated[Direction, typer.Option(help="Direction in which packets are lost.")] = Direction.BOTH,
    form: FormOption = Form.JSON,
    as_json: JsonOption = False,
) -> None:
    """Lose all packets to and from a cluster: connections stay open, nothing arrives."""
    _order("cut", cluster, Form.JSON if as_json else form, direction=direction.value.replace("-", "_"))


@estate_app.command()
def refuse(cluster: ClusterName, form: FormOption = Form.JSON, as_json: JsonOption = False) -> None:
    """Reset the connections to a cluster, and every new one."""
    _order("refuse", cluster, Form.JSON if as_json else form)


@estate_app.command()
def delay(
    cluster: ClusterName,
    milliseconds: Annotated[int, typer.Argument(help="Added delay in milliseconds, in each direction.")],
    form: FormOption = Form.JSON,
    as_json: JsonOption = False,
) -> None:
    """Delay all traffic to and from a cluster."""
    _order("delay", cluster, Form.JSON if as_json else form, delay_ms=milliseconds)


@estate_app.command()
def flap(
    cluster: ClusterName,
    up_ms: Annotated[int, typer.Option(help="Milliseconds for which the link works.")] = 2000,
    down_ms: Annotated[int, typer.Option(help="Milliseconds for which it is cut.")] = 2000,
    form: FormOption = Form.JSON,
    as_json: JsonOption = False,
) -> None:
    """Cut and heal a cluster's link in turn."""
    _order("flap", cluster, Form.JSON if as_json else form, up_ms=up_ms, down_ms=down_ms)


@estate_app.command()
def heal(cluster: ClusterName, form: FormOption = Form.JSON, as_json: JsonOption = False) -> None:
    """Remove all faults from a cluster's link."""
    _order("heal", cluster, Form.JSON if as_json else form)


@estate_app.command()
def links(form: FormOption = Form.JSON, as_json: JsonOption = False) -> None:
    """Show the links behind the proxy and their faults."""
    _order("show", None, Form.JSON if as_json else form)


@estate_app.command()
def add_broker(
    cluster: Annotated[str, typer.Argument(help="Cluster of the running estate.")],
    zone: Annotated[
        str | None, typer.Option(help="The broker's zone (rack); default: the zone with the fewest brokers.")
    ] = None,
    form: FormOption = Form.JSON,
    as_json: JsonOption = False,
) -> None:
    """Start another broker in a cluster; it stays part of the estate until it is removed."""
    from backend.estate.membership import add_broker as add

    with _broker_refusals():
        added = add(_home(), cluster, zone, lambda text: typer.echo(text, err=True))
    servers = f"127.0.0.1:{added.ports.advertised}"
    shown = {"cluster": added.cluster, "node": added.node, "zone": added.zone, "bootstrap_servers": servers}
    _show_lines([shown], Form.JSON if as_json else form)


@estate_app.command()
def remove_broker(
    cluster: Annotated[str, typer.Argument(help="Cluster of the running estate.")],
    node: Annotated[int, typer.Argument(help="Number of an added broker.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Remove it even if it holds replicas: records that only this broker has are lost."
        ),
    ] = False,
    form: FormOption = Form.JSON,
    as_json: JsonOption = False,
) -> None:
    """Stop an added broker, remove it from its cluster's metadata and delete its data."""
    from backend.estate.membership import remove_broker as remove

    with _broker_refusals():
        lost = remove(_home(), cluster, node, lambda text: typer.echo(text, err=True), force=force)
    _show_lines([{"cluster": cluster, "node": node, "replicas_lost": lost}], Form.JSON if as_json else form)


@contextmanager
def _broker_refusals() -> Iterator[None]:
    """Turn failures of adding and removing brokers into exit codes."""
    from backend.estate.added_brokers import BrokerHoldsReplicas, BrokerRefused
    from backend.estate.faults import FaultRefused
    from backend.estate.membership import MembershipFailed
    from backend.estate.programs.jars import JavaMissing

    try:
        yield
    except BrokerHoldsReplicas as error:
        raise _refuse(str(error), 3) from None
    except BrokerRefused as error:
        raise _refuse(str(error), 2) from None
    except (MembershipFailed, FaultRefused, JavaMissing) as error:
        raise _refuse(str(error), 1) from None


def _order(action: str, cluster: str | None, form: Form, **details: object) -> None:
    from backend.estate.faults import FaultRefused, order

    try:
        answer = order(_home(), action, cluster, **details)
    except FaultRefused as error:
        raise _refuse(str(error), 2) from None
    _show_lines(answer, form)


def _show_lines(rows: list[dict[str, Any]], form: Form) -> None:
    """Show the estate's answer; in JSON, one line for each row."""
    if form is Form.JSON:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        show(rows, form, list(rows[0]) if rows else (), rows)


def _home() -> Home:
    from backend.estate.home import Home

    # Resolved: the marker in the processes' environment must be the same however the home was named.
    return Home(settings().home.resolve())


def _refuse(sentence: str, code: int) -> typer.Exit:
    typer.echo(sentence, err=True)
    return typer.Exit(code)


def _tell_troubles(booted: Booted) -> None:
    for process in booted.unready:
        why = f" ({process['detail']})" if process["detail"] else ""
        typer.echo(f"{process['name']} is not ready: {process['state']}{why}; log: {process['log']}", err=True)
    if booted.unready or booted.problems:
        typer.echo(
            "The estate keeps trying. See `treeline status` and `treeline logs NAME`, fix what they report, "
            "and run `treeline up` again: it resumes from here and declares what is missing.",
            err=True,
        )
    for problem in booted.problems:
        typer.echo(problem, err=True)
    if booted.verification is not None and not booted.verification.get("ok"):
        typer.echo(f"verification failed: {json.dumps(booted.verification)}", err=True)


def _show_booted(booted: Booted) -> None:
    from rich.table import Column, Table

    from backend.estate.plan import registries_are_open
    from backend.estate.programs.zone_router import servers_by_zone

    verified = (booted.verification or {}).get("clusters", {})
    table = Table("cluster", Column("bootstrap servers", overflow="fold"), "zones", "verified records")
    for cluster in booted.layout.estate.clusters:
        proof = verified.get(cluster.name)
        table.add_row(
            cluster.name,
            booted.layout.bootstrap_servers(cluster.name),
            ", ".join(dict.fromkeys(cluster.zones)),
            f"{proof['distinct']} of {proof['expected']}" if proof else "",
        )
    on = console()
    on.print(table)
    _show_zones(servers_by_zone(booted.layout.router), on)
    on.print(f"Console:    {booted.layout.url}/", highlight=False)
    if registries_are_open():
        on.print(OPEN_REGISTRIES, highlight=False, soft_wrap=True)
    if booted.login_link:
        on.print(f"Login once: {booted.login_link}", highlight=False, soft_wrap=True)


def _show_zones(zones: dict[str, dict[str, str]], on: Console) -> None:
    """Show the bootstrap servers for clients of each zone, if the estate has a zone router."""
    from rich.table import Table

    if not zones:
        return
    table = Table("zone", "cluster", "its clients' bootstrap server")
    for zone, servers in zones.items():
        for cluster, server in servers.items():
            table.add_row(zone, cluster, server)
    on.print(table)


def _show_status(answer: dict[str, Any], on: Console) -> None:
    from rich.table import Column, Table

    if answer["estate"] is None:
        on.print("No estate runs. Start one with `treeline up`.")
        return
    ready = "ready" if answer["ready"] else "not ready"
    on.print(f"Estate {answer['estate']}: {ready}, control plane {answer['control_plane']}", highlight=False)
    clusters = Table("cluster", Column("bootstrap servers", overflow="fold"), "state", "reason")
    for name, row in answer["clusters"].items():
        clusters.add_row(name, row["bootstrap_servers"], row["state"], row["reason"] or "")
    on.print(clusters)
    _show_zones(answer["zones"], on)
    processes = Table("process", "pid", "state", "restarts", "memory (PSS)", "last end")
    for row in answer["processes"]:
        processes.add_row(
            row["name"],
            str(row["pid"] or ""),
            row["state"],
            str(row["restarts"] or ""),
            _megabytes(row["memory_bytes"]),
            f"{row['last_end']['at']}: {row['last_end']['reason']}" if row["last_end"] else row["detail"],
        )
    processes.add_row("supervisor", str(answer["supervisor"]["pid"]), "running", "",
                      _megabytes(answer["supervisor"]["memory_bytes"]), "")  # fmt: skip
    processes.add_row("together", "", "", "", _megabytes(answer["memory_bytes"]), "", style="bold")
    on.print(processes)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count else ""
