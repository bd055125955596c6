"""Conversion of an estate into its processes: the one place that knows every command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import make_url

from backend.estate.document import ClusterSpec, Estate
from backend.estate.home import Home
from backend.estate.ports import Ports
from backend.estate.processes import MARKER, Plan, ProcessSpec, Ready
from backend.estate.programs.broker import AddedBroker, Broker, BrokerPorts
from backend.estate.programs.database_login import LOGIN
from backend.estate.programs.heap import heap_of, machine_memory_mb
from backend.estate.programs.postgres import OWNER, PostgresServer
from backend.estate.programs.valkey_server import valkey_process
from backend.estate.programs.zone_router import RouterPorts, router_ports, router_processes
from backend.estate.proxy import TOKEN_VARIABLE
from backend.locations import SETTINGS_FILE_VARIABLE, settings_file
from backend.settings import settings

API_PORT = 8000
CLIENT_PORT = 19091
CONTROLLER_PORT = 19291
INTERNAL_PORT = 19491
BEHIND_PROXY_PORT = 19691
POSTGRES_PORT = 15432
VALKEY_PORT = 16379
PROXY_CONTROL_PORT = 19890


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """Location of Kafka's jars and of the class archive."""

    jars: Path
    archive: Path | None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """An estate with its ports and folders; both the plan and the output of `up` need it."""

    home: Home
    estate: Estate
    api_port: int
    postgres_port: int | None
    valkey_port: int | None
    proxy_control_port: int | None
    brokers: Mapping[str, tuple[BrokerPorts, ...]]  # by cluster, of the estate file
    added: tuple[AddedBroker, ...] = ()
    router: RouterPorts = field(default_factory=RouterPorts)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def data(self) -> Path:
        return self.home.data(self.estate.name)

    def added_to(self, cluster: str) -> tuple[AddedBroker, ...]:
        return tuple(broker for broker in self.added if broker.cluster == cluster)

    def broker_folder(self, cluster: str, node: int) -> Path:
        return self.data / cluster / f"broker-{node}"

    def bootstrap_servers(self, cluster: str) -> str:
        """Return the addresses of the estate file's brokers: they always exist, and know the added ones."""
        return ",".join(f"127.0.0.1:{ports.advertised}" for ports in self.brokers[cluster])

    def properties(self, cluster: ClusterSpec) -> dict[str, str]:
        """Return the control plane's client properties for a cluster; the password is a reference to its file."""
        if cluster.sasl is None:
            return {}
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": cluster.sasl,
            "sasl.username": OWNER,
            "sasl.password": f"${{file:{self.home.secret_path('kafka-password')}}}",
        }


def lay_out(home: Home, estate: Estate, ports: Ports, added: Iterable[AddedBroker] = ()) -> Layout:
    """Assign every process its ports. Embedded services are left out if the settings name external ones."""
    brokers: dict[str, tuple[BrokerPorts, ...]] = {}
    number = 0
    for cluster in estate.clusters:
        given = []
        for node in range(1, cluster.brokers + 1):
            given.append(broker_ports(ports, cluster, node, number=number))
            number += 1
        brokers[cluster.name] = tuple(given)
    specs = {cluster.name: cluster for cluster in estate.clusters}
    again = [replace(one, ports=broker_ports(ports, specs[one.cluster], one.node)) for one in added]
    proxied = any(cluster.via_proxy for cluster in estate.clusters)
    return Layout(
        home=home,
        estate=estate,
        api_port=ports.take("api", API_PORT),
        postgres_port=None if is_given("database_url") else ports.take("postgres", POSTGRES_PORT),
        valkey_port=None if is_given("celery_broker_url") else ports.take("valkey", VALKEY_PORT, former="redis"),
        proxy_control_port=ports.take("proxy", PROXY_CONTROL_PORT) if proxied else None,
        brokers=brokers,
        added=tuple(again),
        router=router_ports(ports, estate),
    )


def broker_ports(ports: Ports, cluster: ClusterSpec, node: int, *, number: int | None = None) -> BrokerPorts:
    """Return the ports of one broker.

    `number` is its place among all brokers of the estate file, which determines its default ports; None for an
    added broker, which gets spare ports and is no controller.
    """

    def take(use: str, first: int) -> int:
        return ports.take(f"{use}:{cluster.name}:{node}", None if number is None else first + number)

    advertised = take("kafka", CLIENT_PORT)
    return BrokerPorts(
        client=take("kafka-behind-proxy", BEHIND_PROXY_PORT) if cluster.via_proxy else advertised,
        advertised=advertised,
        internal=take("kafka-internal", INTERNAL_PORT),
        controller=None if number is None else take("kafka-controller", CONTROLLER_PORT),
    )


def is_given(name: str) -> bool:
    """Return whether the operator configured this service, so that the embedded one is not needed."""
    return name in settings().model_fields_set


def make_plan(layout: Layout, kafka: Kafka, while_pid: int | None) -> Plan:
    """Write the files that the processes read (data folders, settings files); return the processes in order."""
    processes: list[ProcessSpec] = []
    if layout.postgres_port is not None:
        processes.append(_postgres(layout, layout.postgres_port))
    if layout.valkey_port is not None:
        processes.append(
            valkey_process(
                folder=layout.data / "valkey",
                port=layout.valkey_port,
                password=layout.home.secret("redis-password"),
                log=layout.home.log("valkey"),
            )
        )
    if layout.proxy_control_port is not None:
        processes.append(proxy_process(layout, layout.proxy_control_port))
    # First the database, then the brokers, then the processes that need the database: on few cores the brokers'
    # start is the long part, and migrations run beside it.
    processes += _brokers(layout, kafka)
    clusters = {
        each.name: (layout.bootstrap_servers(each.name), layout.properties(each))
        for each in layout.estate.clusters
    }
    processes += router_processes(layout.home, layout.data / "channel", layout.router, clusters, layout.url)
    processes += _control_plane(layout, [spec.name for spec in processes if spec.group == 0])
    return Plan(
        estate=layout.estate.name,
        digest=layout.estate.digest,
        processes=[_marked(spec, layout.home) for spec in processes],
        while_pid=while_pid,
    )


def with_process(plan: Plan, spec: ProcessSpec, home: Home) -> Plan:
    """Return the plan with one more process at the end of its group; one of the same name is replaced in place."""
    spec = _marked(spec, home)
    if any(known.name == spec.name for known in plan.processes):
        return replace(plan, processes=[spec if known.name == spec.name else known for known in plan.processes])
    before = [known for known in plan.processes if known.group <= spec.group]
    after = [known for known in plan.processes if known.group > spec.group]
    return replace(plan, processes=[*before, spec, *after])


def without_process(plan: Plan, name: str) -> Plan:
    """Return the plan without the process of this name."""
    return replace(plan, processes=[known for known in plan.processes if known.name != name])


def _marked(spec: ProcessSpec, home: Home) -> ProcessSpec:
    spec.environment[MARKER] = str(home.path)
    return spec


def postgres_server(home: Home, estate: str, port: int) -> PostgresServer:
    return PostgresServer(
        data_dir=home.data(estate) / "postgres", port=port, password=home.secret("postgres-password")
    )


def _postgres(layout: Layout, port: int) -> ProcessSpec:
    server = postgres_server(layout.home, layout.estate.name, port)
    server.initialise()
    return ProcessSpec(
        name="postgres",
        argv=server.command(),
        directory=str(layout.data),
        log=str(layout.home.log("postgres")),
        ready=Ready(kind="postgres", port=port),
        stop_signal="SIGINT",  # "fast": ends sessions and leaves clean data
        stop_seconds=15.0,
    )


def proxy_process(layout: Layout, control_port: int) -> ProcessSpec:
    """Return the proxy's process, with the ports of all brokers that are behind it."""
    links = [
        f"{cluster.name}={ports.advertised}:{ports.client}"
        for cluster in layout.estate.clusters
        if cluster.via_proxy
        for ports in [*layout.brokers[cluster.name], *(added.ports for added in layout.added_to(cluster.name))]
    ]
    return ProcessSpec(
        name="proxy",
        argv=[sys.executable, "-m", "backend.estate.proxy", str(control_port), *links],
        environment={TOKEN_VARIABLE: layout.home.secret("proxy-token")},
        directory=str(layout.home.path),
        log=str(layout.home.log("proxy")),
        ready=Ready(kind="tcp", port=control_port),
        stop_seconds=3.0,
        group=0,
    )


def _brokers(layout: Layout, kafka: Kafka) -> list[ProcessSpec]:
    found = []
    for cluster in layout.estate.clusters:
        found += [broker_process(layout, kafka, cluster, node) for node in range(1, cluster.brokers + 1)]
        found += [
            broker_process(layout, kafka, cluster, added.node, added) for added in layout.added_to(cluster.name)
        ]
    return found


def broker_process(
    layout: Layout, kafka: Kafka, cluster: ClusterSpec, node: int, added: AddedBroker | None = None
) -> ProcessSpec:
    """Return one broker's process and write its settings.

    `added` is the broker if it is not in the estate file.
    """
    broker = Broker(
        cluster=cluster,
        node=node,
        ports=layout.brokers[cluster.name],
        folder=layout.broker_folder(cluster.name, node),
        password=layout.home.secret("kafka-password"),
        heap_mb=heap_of(cluster, layout.estate, machine_memory_mb()).megabytes,
        added=added,
    )
    return broker.process(jars=kafka.jars, archive=kafka.archive, log=layout.home.log(broker.name), after=[])


def registries_are_open() -> bool:
    """Return whether the estate's schema registries serve this machine's programs without a token."""
    return settings().registry_open if is_given("registry_open") else True


def control_plane_environment(layout: Layout) -> dict[str, str]:
    """Return the environment that tells the API, the workers and the verification about the estate."""
    home, environment = layout.home, {"TREELINE_HOME": str(layout.home.path), "TREELINE_URL": layout.url}
    environment["TREELINE_ADMIN_TOKEN"] = home.secret("admin-token")
    if not is_given("secrets_key"):
        environment["TREELINE_SECRETS_KEY"] = home.secret("secrets-key")
    if not is_given("webhook_allowed_networks"):
        # The receivers of an estate's webhooks run on this machine.
        environment["TREELINE_WEBHOOK_ALLOWED_NETWORKS"] = "127.0.0.0/8"
    if not is_given("secret_variables"):
        # The names that the docs use for clusters' secrets; no variable in a developer's shell has such a name.
        environment["TREELINE_SECRET_VARIABLES"] = '["C[0-9]*"]'
    if not is_given("registry_open"):
        # Stock clients can use an estate's registries without tokens; `up` says so.
        environment["TREELINE_REGISTRY_OPEN"] = "true"
    if layout.postgres_port is not None:
        owner = make_url(_owner_url(layout, layout.postgres_port))
        login = owner.set(username=LOGIN, password=home.secret("application-password"))
        environment["TREELINE_DATABASE_URL"] = login.render_as_string(hide_password=False)
    if layout.valkey_port is not None:
        password = home.secret("redis-password")
        environment["TREELINE_CELERY_BROKER_URL"] = f"redis://:{password}@127.0.0.1:{layout.valkey_port}/0"
    return environment


def _owner_url(layout: Layout, postgres_port: int) -> str:
    return postgres_server(layout.home, layout.estate.name, postgres_port).url(OWNER)


def _control_plane(layout: Layout, services: list[str]) -> list[ProcessSpec]:
    environment = {**control_plane_environment(layout), "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}
    # Celery sets process titles; the environment, which holds our marker, must not be overwritten by them.
    environment["SPT_NOENV"] = "1"
    # The database's owner may rewrite history. Only migrations get its URL, whatever environment `up` was started
    # in.
    environment["TREELINE_MIGRATION_DATABASE_URL"] = ""

    def process(
        name: str, words: list[str], ready: Ready, after: list[str], stop_seconds: float = 5.0
    ) -> ProcessSpec:
        return ProcessSpec(
            name=name,
            argv=[sys.executable, "-m", *words],
            environment=dict(environment),
            directory=str(layout.home.path),
            log=str(layout.home.log(name)),
            ready=ready,
            after=after,
            group=2,
            stop_seconds=stop_seconds,
        )

    def worker(name: str, queue: str, processes: int) -> ProcessSpec:
        ready_file = layout.home.run / f"worker-{name}.ready"
        spec = process(
            f"worker:{name}",
            ["celery", "-A", "workers.app", "worker", "-Q", queue, "-c", str(processes), "--pool", "prefork",
             "-n", f"{name}@%h", "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "warning",
             "-I", "backend.estate.worker_ready"],
            Ready(kind="file", path=str(ready_file)),
            ["migrate", *services],
            stop_seconds=8.0,
        )  # fmt: skip
        spec.environment["TREELINE_READY_FILE"] = str(ready_file)
        return spec

    if layout.postgres_port is not None:
        migrations, owner = "backend.estate.programs.database_login", _owner_url(layout, layout.postgres_port)
    else:
        migrations, owner = "migrations", settings().migration_database_url or ""
    migrate = process("migrate", [migrations], Ready(kind="exit"), services)
    migrate.environment["TREELINE_MIGRATION_DATABASE_URL"] = owner
    schedule = layout.home.run / "beat-schedule"
    # Many clients keep an idle connection for 5 s, which is also uvicorn's default: if both ends close at the same
    # time, one may just have sent a request. The server must be the later one.
    return [
        migrate,
        process(
            "api",
            ["uvicorn", "backend.asgi:app", "--host", "127.0.0.1", "--port", str(layout.api_port),
             "--log-level", "warning", "--timeout-keep-alive", "75", "--no-proxy-headers"],
            Ready(kind="http", port=layout.api_port, path="/readyz"),
            ["migrate"],
        ),
        worker("control", "treeline.control", 1),
        worker("shifts", "treeline.shifts", 2),
        worker("offsets", "treeline.offsets", 1),
        worker("schemas", "treeline.schemas", 1),
        process(
            "beat",
            ["celery", "-A", "workers.app", "beat", "--schedule", str(schedule), "-l", "warning"],
            Ready(kind="file", path=str(schedule)),
            ["migrate", *services],
        ),
    ]  # fmt: skip


def inherited_environment() -> dict[str, str]:
    """Return the caller's environment as the supervisor passes it on, with our Python's programs first in PATH.

    The estate's processes run in its home, whose folders hide no module of ours, and not in the caller's working
    folder. Paths in the caller's settings that are relative to that folder are therefore made absolute.
    """
    given = settings()
    values = {name: getattr(given, name) for name in given.model_fields_set}
    paths = {
        f"TREELINE_{name.upper()}": str(value.absolute())
        for name, value in values.items()
        if isinstance(value, Path)
    }
    paths[SETTINGS_FILE_VARIABLE] = str(settings_file().absolute())
    programs = str(Path(sys.executable).parent)
    return {**os.environ, **paths, "PATH": os.pathsep.join([programs, os.environ.get("PATH", "")])}
