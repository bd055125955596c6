"""One or more examples of every command, shown at the end of `--help` and in docs/cli.md.

A test parses each of them with the program itself, and checks that every command has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import typer

_STREAM = "acme/retail/prod/orders"
_APPLICATION = "acme/retail/prod/billing"
_SUBJECT = "acme-retail-prod-orders-value"

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "up": ("", "--estate estates/replicated.yaml --no-verify"),
    "down": ("", "--wipe"),
    "status": ("", "--watch", "-o json"),
    "logs": ("api", "worker:shifts -f -n 50"),
    "estate add-broker": ("cluster-1 --zone az2",),
    "estate cut": ("cluster-1 --direction to-broker",),
    "estate delay": ("cluster-1 200",),
    "estate flap": ("cluster-1 --up-ms 3000 --down-ms 500",),
    "estate heal": ("cluster-1",),
    "estate links": ("", "-o table"),
    "estate refuse": ("cluster-1",),
    "estate remove-broker": ("cluster-1 4", "cluster-1 4 --force"),
    "verify": ("", f"--stream {_STREAM} --records 5000 -o json"),
    "config check": ("", "-o json"),
    "get": (
        "clusters",
        "streams acme/retail/prod -o yaml",
        "switches --watch",
        "distributors -w 5 -o json",
        "tree --at 120",
    ),
    "describe": (f"stream {_STREAM}", "cluster cluster-1 -w"),
    "delete": (f"stream {_STREAM} --dry-run", f"stream {_STREAM} --confirm {_STREAM}", "cluster cluster-6"),
    "apply": ("-f declared.yaml --dry-run", "-f declared.yaml --wait 60", "-f - < declared.yaml"),
    "diff": ("-f declared.yaml",),
    "export": ("> all.yaml", "acme/retail > retail.yaml"),
    "adopt": (
        "cluster-1 --dry-run",
        f"cluster-1 --topic acme-retail-prod-orders --as {_STREAM}=acme-retail-prod-orders",
    ),
    "events": (
        "--last 20",
        "--actor ada --last 50 -o json",
        "--stream tenant-acme --follow",
        "--name StreamDeclared",
    ),
    "events diff": ("120", "120 180 -o yaml"),
    "events export-head": ("> head.json",),
    "events verify": ("", "--head head.json"),
    "projections rebuild": ("", "clusters"),
    "distributor pause": ("cluster-1 3 --dry-run", "cluster-1 3"),
    "distributor resume": ("cluster-1 3",),
    "distributor retarget": ("cluster-1 3 cluster-5 --dry-run", "cluster-1 3 cluster-5"),
    "distributor set": (
        "cluster-1 3 --bytes-per-second 5000000",
        "cluster-1 3 --bytes-per-second none --compression zstd",
    ),
    "distributor show": ("cluster-1 3", "cluster-1 3 --watch"),
    "login-link": ("", "-o json"),
    "trace": (f"{_STREAM} 0 4711 --cluster cluster-1",),
    "messages": (
        _STREAM,
        f"{_STREAM} --cluster cluster-4 --partition 0 --from 4711 --limit 10 -o json",
        f"{_STREAM} --from earliest --filter key:order-17",
        f"{_STREAM} --filter header:trace --filter 'json:$.status == \"paid\"'",
    ),
    "stream figures": (_STREAM, f"{_STREAM} --watch", f"{_STREAM} --partitions -o json"),
    "history": (
        "edge.lag_records cluster-1:3",
        "edge.lag_records",
        "cluster.bytes_in_per_second cluster-1 --hours 24 -o json",
    ),
    "produce": (
        f'{_STREAM} --key order-17 --value \'{{"status": "paid"}}\' --as-json',
        f"{_STREAM} --key order-17 --tombstone --dry-run",
        f"{_STREAM} --value-file message.bin --header trace=7f3c --partition 0 --cluster cluster-1",
    ),
    "set-aside list": ("", "-w 10"),
    "set-aside replay": ("4 --dry-run", "4"),
    "losses list": ("", "-o json"),
    "losses acknowledge": ("cluster-1 3 --dry-run", "cluster-1 3"),
    "groups list": ("", "--cluster cluster-1 --diagnosis partition-stalled", f"--stream {_STREAM} --watch"),
    "groups show": ("billing", "billing --cluster cluster-1 -o json"),
    "offsets not-followed": ("", "--watch"),
    "offsets reset": (
        f"{_STREAM} billing --cluster cluster-1 --to earliest --dry-run",
        f"{_STREAM} billing --cluster cluster-1 --to 2026-01-31T08:00:00Z --partition 2",
    ),
    "schemas targets": ("", "--watch"),
    "schemas subjects": ("", "--prefix acme- --deleted", "--cluster cluster-4 --watch"),
    "schemas list": ("", "--prefix acme- --latest -o json"),
    "schemas versions": (_SUBJECT, f"{_SUBJECT} --deleted -o json"),
    "schemas show": (_SUBJECT, f"{_SUBJECT} 2 -o json", f"{_SUBJECT} --text > order.avsc"),
    "schemas show-id": ("7", "7 --text > order.avsc"),
    "schemas referring": (f"{_SUBJECT} 1",),
    "schemas register": (
        f"{_SUBJECT} -f order.avsc --dry-run",
        f"{_SUBJECT} -f order.avsc --reference User=acme-retail-prod-users-value:1",
        f"{_SUBJECT} -f - --type json < order.json",
    ),
    "schemas find": (f"{_SUBJECT} -f order.avsc",),
    "schemas check": (f"{_SUBJECT} -f order.avsc", f"{_SUBJECT} -f order.avsc --version 1 -o json"),
    "schemas level": (
        "",
        _SUBJECT,
        "--set full --dry-run",
        f"{_SUBJECT} --set backward_transitive",
        f"{_SUBJECT} --clear",
    ),
    "schemas mode": ("", f"{_SUBJECT} --set readonly", f"{_SUBJECT} --clear --dry-run"),
    "schemas delete": (
        f"{_SUBJECT} 2 --dry-run",
        _SUBJECT,
        f"{_SUBJECT} --permanent",
        f"{_SUBJECT} 2 --permanent --yes",
    ),
    "schemas move-primary": ("cluster-2 --dry-run", "cluster-2 --take-over"),
    "switch plan": (
        "--from cluster-1 --to cluster-4 --tenant acme",
        "--from cluster-1 --to cluster-4 --without-zone az1 --export plan.json",
    ),
    "switch start": (
        "--from cluster-1 --to cluster-4",
        "--from cluster-1 --to cluster-4 --emergency --yes --no-watch",
    ),
    "switch watch": ("7f3c",),
    "switch abort": ("7f3c --dry-run", '7f3c --reason "the target is too slow"'),
    "switch force": ("7f3c --client billing-3",),
    "switch reverse": ("7f3c",),
    "placement plan": ("--input question.json -o json", "--cluster cluster-1 --target-brokers 1,2,3"),
    "placement initial": ("--brokers brokers.json --partitions 12 --replication-factor 3",),
    "placement show": ("9b21", "9b21 --reassignment moves.json"),
    "placement policy": ("cluster-1", "cluster-1 --set propose --away-minutes 30 --dry-run"),
    "placement apply": ("9b21", "9b21 --digest 5d41 --bytes-per-second 20000000 --yes"),
    "placement watch": ("9b21",),
    "placement pause": ("9b21",),
    "placement resume": ("9b21",),
    "placement cancel": ("9b21 --no-watch",),
    "placement rollback": ("9b21",),
    "replication show": ("cluster-1", "cluster-1 --brokers --watch"),
    "replication elect-leaders": ("cluster-1 --dry-run", "cluster-1 --topic acme-retail-prod-orders"),
    "drill replication": ("--list", "--scenario log-divergence --mode faithful --seed 7"),
    "drill broker": ("cluster-1 3",),
    "drill search": ("--mode faithful --depth 6",),
    "user disable": ("ada --dry-run", "ada"),
    "user enable": ("ada",),
    "user password": ("ada",),
    "token list": ("", "--user ada -o json", "--watch"),
    "token issue": ("ci --user ada --days 90",),
    "token revoke": ("ci --user ada",),
    "member list": ("acme",),
    "member set": ("acme ada owner --dry-run", "acme ada owner"),
    "member remove": ("acme ada",),
    "user link": ("ada 00u1a2b3c4",),
    "user unlink": ("ada",),
    "audit": (
        "--limit 20",
        "--actor ada --since 2026-01-31",
        "--kind Logins -o json",
        "--tenant acme --own --kind MessagesRead",
    ),
    "audit export": ("--form csv > audit.csv", "--tenant acme > acme.jsonl"),
    "undo": ("1234 --dry-run", "1234", f"1240 --confirm {_STREAM}"),
    "webhook test": ("ops",),
    "webhook deliveries": ("ops --limit 20", "ops --watch"),
    "webhook retry": ("ops 4711",),
    "webhook rotate": ("ops --dry-run", "ops"),
    "whoami": ("", "-o yaml"),
    "grant": (f"{_APPLICATION} {_STREAM} consume",),
    "refuse": (f'{_APPLICATION} {_STREAM} consume --reason "ask for the public one"',),
    "withdraw": (f"{_APPLICATION} {_STREAM} consume --dry-run",),
    "credentials issue": (_APPLICATION,),
    "credentials revoke": (_APPLICATION,),
    "overview": ("", "--check", "--watch 10 -o json"),
    "zones": ("", "--traffic", "--watch 5"),
    "zones epochs": ("", "-w -o json"),
    "zones forget": ("zr-az2 --dry-run",),
    "discovery show": ("acme/retail/prod --zone az1", "acme/retail/prod --watch"),
    "discovery clients": ("acme/retail/prod",),
    "discovery forget": ("acme/retail/prod billing-3",),
    "context list": ("", "-o json"),
    "context use": ("production", "local"),
    "context set": (
        "production --url https://treeline.example.org --token '${env:PRODUCTION_TOKEN}' --use",
        "production --token - < token",
    ),
    "context delete": ("production",),
    "context show": ("", "production"),
    "completion": ("bash > ~/.local/share/bash-completion/completions/treeline", "fish | source"),
}
"""Examples by command: the arguments that follow its name."""


def examples_of(command: str) -> list[str]:
    """Return the lines that show how a command is used; `command` without `treeline`."""
    return [f"treeline {command} {each}".rstrip() for each in EXAMPLES.get(command, ())]


def attach(app: typer.Typer) -> None:
    """Append the examples to the help of every command."""
    for path, info in _infos(app, ""):
        lines = examples_of(path)
        if lines:
            # One line each: the help joins lines that have no empty line between them.
            info.epilog = "\n\n".join(["Examples:", *(f"  {line.replace('[', chr(92) + '[')}" for line in lines)])


def _infos(
    app: typer.Typer, above: str
) -> Iterator[tuple[str, typer.models.CommandInfo | typer.models.TyperInfo]]:
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__.replace("_", "-") if command.callback else "")
        yield f"{above}{name}", command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield f"{above}{group.name}", group
            yield from _infos(group.typer_instance, f"{above}{group.name} ")
