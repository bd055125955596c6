"""docker-compose.yml: well-formed by the Compose specification, hardened, and true to the code.

No engine is needed; the keys and types below are those of the specification that the file uses. A key that is not
among them fails here, so that a misspelt one cannot be ignored silently.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from backend.estate.document import read_estate
from backend.estate.home import Home
from backend.estate.plan import Kafka, lay_out, make_plan
from backend.estate.ports import Ports
from backend.estate.programs.database_login import LOGIN
from backend.program_version import VERSION
from backend.settings import Settings
from tests.project.architecture.sources import PROJECT_ROOT
from tests.project.architecture.test_dead_files import MODULES
from workers.app import app as celery_app

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT_ROOT / "docker-compose.yml").read_text())
IN_CONTEXT = (PROJECT_ROOT / ".dockerignore").read_text().splitlines()
DOCKERFILE = (PROJECT_ROOT / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("build")}
ONE_SHOT = {"migrate"}

TOP_LEVEL = {"name": str, "services": dict, "volumes": dict}
SERVICE_KEYS: dict[str, type | tuple[type, ...]] = {
    "build": str,
    "cap_drop": list,
    "command": list,
    "depends_on": dict,
    "entrypoint": list,
    "environment": dict,
    "healthcheck": dict,
    "image": str,
    "ports": list,
    "read_only": bool,
    "restart": str,
    "security_opt": list,
    "stop_grace_period": str,
    "stop_signal": str,
    "tmpfs": list,
    "user": str,
    "volumes": list,
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period", "start_interval"}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
DURATION = re.compile(r"^(\d+(h|m|s|ms|us))+$")
PORT = re.compile(r"^127\.0\.0\.1:\d+:\d+$")
# Read by worker_ready.py, which is imported before any setting, and by spark.sh, which starts before any program.
NOT_SETTINGS = {"TREELINE_READY_FILE", "TREELINE_SPARK_SECRET"}
# Read by Spark, and by the Python that its executors start.
SPARKS = {"SPARK_CONF_DIR", "SPARK_WORKER_DIR", "SPARK_LOCAL_DIRS", "SPARK_DAEMON_MEMORY", "PYTHONPATH"}
SPARK_CLASSES = {"org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"}

each_service = pytest.mark.parametrize(("name", "service"), SERVICES.items(), ids=SERVICES)
each_of_ours = pytest.mark.parametrize(("name", "service"), OURS.items(), ids=OURS)


def test_the_file_has_the_parts_of_a_compose_file():
    for key, value in COMPOSE.items():
        assert key.startswith("x-") or isinstance(value, TOP_LEVEL[key]), key
    assert {
        "postgres",
        "redis",
        "migrate",
        "api",
        "worker-control",
        "worker-shifts",
        "worker-offsets",
        "worker-schemas",
        "beat",
        *("spark-master", "spark-worker", "prometheus", "grafana"),
    } <= SERVICES.keys()
    assert sum(service["image"].startswith("apache/kafka:") for service in SERVICES.values()) == 5


@each_service
def test_a_service_uses_known_keys_with_the_right_types(name, service):
    for key, value in service.items():
        assert key in SERVICE_KEYS, f"{name} has {key}"
        assert isinstance(value, SERVICE_KEYS[key]), f"{name}.{key} is a {type(value).__name__}"
    for variable, value in service.get("environment", {}).items():
        assert isinstance(value, str | int), f"{name}: {variable} must be text or a number"
    for argument in [*service.get("command", []), *service.get("healthcheck", {}).get("test", [])]:
        assert isinstance(argument, str), f"{name}: quote {argument!r}"


@each_service
def test_what_a_service_refers_to_exists(name, service):
    for other, needs in service.get("depends_on", {}).items():
        assert other in SERVICES, f"{name} depends on {other}"
        assert needs.keys() == {"condition"}
        assert needs["condition"] in CONDITIONS
        assert (needs["condition"] == "service_completed_successfully") == (other in ONE_SHOT)
    for volume in service.get("volumes", []):
        what, where, *how = volume.split(":")
        if what.startswith("./"):
            assert (PROJECT_ROOT / what).exists(), f"{name} mounts {what}"
            assert how == ["ro"], f"{name} could write {what}"
        else:
            assert what in COMPOSE["volumes"], f"{name} mounts {volume}"
        assert where.startswith("/")


@each_service
def test_a_service_is_neither_root_nor_able_to_write_its_image_nor_open_to_the_network(name, service):
    assert re.match(r"^[1-9]\d*:[1-9]\d*$", service["user"]), f"{name} runs as {service.get('user')}"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(PORT.match(port) for port in service.get("ports", []))
    assert re.search(r":[^:]*\d", service["image"]) or service.get("build"), f"{name} takes any version"


@each_service
def test_nothing_is_copied_into_a_container_that_cannot_be_written(name, service):
    """Configs and secrets with `content` or `environment` must not be used for read-only containers.

    Compose copies them into the container, and refuses to do so if it is read-only (docker/compose#12031); files
    are mounted.
    """
    assert service["read_only"]
    for kind in ("configs", "secrets"):
        for each in service.get(kind, []):
            source = each if isinstance(each, str) else each["source"]
            assert COMPOSE[kind][source].keys() == {"file"}, f"{name} gets {source}"


@each_service
def test_scripts_that_are_mounted_write_where_they_may(name, service):
    for volume in service.get("volumes", []):
        what, where, *_ = volume.split(":")
        if what.startswith("./deploy/compose/"):
            assert where in [*service.get("entrypoint", []), *service.get("command", [])] or where.startswith(
                "/docker-entrypoint-initdb.d/"
            ), f"{name} does not start {where}"
            assert (PROJECT_ROOT / what).stat().st_mode & 0o111, f"{what} is not executable"
    configured = service.get("environment", {}).get("SPARK_CONF_DIR", "/tmp/spark")
    assert configured.startswith("/tmp/"), "in memory"


@each_service
def test_a_service_that_goes_on_has_a_health_check(name, service):
    if name in ONE_SHOT:
        assert service["restart"] == "no"
        return
    check = service["healthcheck"]
    assert check.keys() <= HEALTH_KEYS
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert isinstance(check["retries"], int)
    for key in HEALTH_KEYS - {"test", "retries"}:
        assert DURATION.match(check[key]), f"{name}: {key}"
    assert service["restart"] == "unless-stopped"


def test_no_password_stands_in_the_file():
    text = (PROJECT_ROOT / "docker-compose.yml").read_text()
    for line in text.splitlines():
        if re.search(r"(PASSWORD|TOKEN|AUTH|requirepass|[.]secret )", line) and not line.startswith("#"):
            assert "${TREELINE_" in line, line
            assert ":?" in line, f"a missing variable must be refused: {line}"


def test_only_the_database_and_migrations_get_the_owner_s_password():
    """All other services use the login that cannot change history."""
    known = {name for name, service in SERVICES.items() if "TREELINE_POSTGRES_PASSWORD" in str(service)}
    assert known == {"postgres", "migrate"}
    addresses = {
        service["environment"]["TREELINE_DATABASE_URL"]
        for service in OURS.values()
        if "TREELINE_DATABASE_URL" in service["environment"]
    }
    assert {make_url(re.sub(r"[$][{].*?[}]", "word", address)).username for address in addresses} == {LOGIN}
    script = (PROJECT_ROOT / "deploy/compose/application_login.sh").read_text()
    assert f"CREATE ROLE {LOGIN} LOGIN PASSWORD" in script


def test_the_clusters_are_different_ones():
    brokers = {n: s["environment"] for n, s in SERVICES.items() if "CLUSTER_ID" in s.get("environment", {})}
    assert len({environment["CLUSTER_ID"] for environment in brokers.values()}) == 5
    for name, environment in brokers.items():
        assert f"INTERNAL://{name}:9092," in environment["KAFKA_ADVERTISED_LISTENERS"]
        [port] = SERVICES[name]["ports"]
        assert environment["KAFKA_ADVERTISED_LISTENERS"].endswith(port.removesuffix(":9094"))


@each_of_ours
def test_our_services_get_settings_that_exist(name, service):
    known = {f"TREELINE_{field.upper()}" for field in Settings.model_fields} | NOT_SETTINGS | SPARKS
    assert service["environment"].keys() <= known


@each_of_ours
def test_our_services_start_what_the_code_has(name, service):
    command = service["command"]
    if command[0] == "spark-class":
        assert command[1] in SPARK_CLASSES
        return
    assert command[:2] == ["python", "-m"]
    started = command[2]
    if started == "uvicorn":
        assert command[3] == "backend.asgi:app"
        assert "backend.asgi" in MODULES
    elif started == "celery":
        assert command[command.index("-A") + 1] == "workers.app"
        if "worker" in command:
            queues = set(command[command.index("-Q") + 1].split(","))
            assert queues <= {queue.name for queue in celery_app.conf.task_queues}
            assert command[command.index("-I") + 1] in MODULES
    else:
        assert command[2:] == ["migrations"]
        assert "migrations.__main__" in MODULES
        assert (PROJECT_ROOT / "alembic.ini").exists()


def test_what_the_local_estate_starts_has_a_service_with_the_same_command(tmp_path):
    """Commands match apart from ports, addresses and the estate's own files."""
    home = Home(tmp_path)
    home.make()
    estate = read_estate(PROJECT_ROOT / "estates" / "unbalanced.yaml")
    home.data(estate.name).mkdir(parents=True)
    layout = lay_out(home, estate, Ports(tmp_path / "ports.json", prefer_defaults=False))
    plan = make_plan(layout, Kafka(jars=tmp_path, archive=None), while_pid=None)
    started = {spec.name: spec.argv[1:] for spec in plan.processes}
    brokers = {name.split(":")[1] for name in started if name.startswith("kafka:")}
    assert brokers == {n for n, s in SERVICES.items() if s["image"].startswith("apache/kafka:")}
    # Compose uses an image of Redis instead.
    others = {name for name in started if not name.startswith("kafka:")} - {"valkey"}
    assert {name.replace(":", "-") for name in others} <= SERVICES.keys()
    # The login that the database image creates by a script exists there before migrations run.
    assert started.pop("migrate") == ["-m", "backend.estate.programs.database_login"]
    assert SERVICES["migrate"]["command"][1:] == ["-m", "migrations"]
    for name in others - {"postgres", "migrate"}:
        assert shape(started[name]) == shape(SERVICES[name.replace(":", "-")]["command"][1:]), name


def shape(words):
    """Return a command without the parts that differ from place to place."""
    hidden = {"--host", "--port", "--schedule"}
    return [word for before, word in zip(["", *words], words, strict=False) if before not in hidden]


def test_spark_is_the_one_that_offsets_are_translated_on():
    offsets = SERVICES["worker-offsets"]["environment"]
    master = SERVICES["spark-master"]["command"]
    assert offsets["TREELINE_SPARK_MASTER"] == f"spark://spark-master:{master[master.index('--port') + 1]}"
    assert SERVICES["spark-worker"]["command"][-1] == offsets["TREELINE_SPARK_MASTER"]
    for name in ("worker-offsets", "spark-master", "spark-worker"):
        assert SERVICES[name]["entrypoint"] == ["sh", "/etc/treeline/spark.sh"], "it writes the secret down"
        assert SERVICES[name]["environment"].keys() >= {"SPARK_CONF_DIR", "TREELINE_SPARK_SECRET"}
        assert SERVICES[name]["image"] == "treeline", "the same Python and Spark at both ends"


def test_prometheus_and_grafana_get_what_is_shipped():
    mounted = {v.split(":")[1]: v.split(":")[0] for n in ("prometheus", "grafana") for v in SERVICES[n]["volumes"]}
    [config] = [each for each in SERVICES["prometheus"]["command"] if each.startswith("--config.file=")]
    scrapes = yaml.safe_load((PROJECT_ROOT / mounted[config.partition("=")[2]]).read_text())
    assert all(rules in mounted for rules in scrapes["rule_files"])
    targets = [t for job in scrapes["scrape_configs"] for each in job["static_configs"] for t in each["targets"]]
    told = SERVICES["api"]["environment"]
    assert set(targets) == {f"api:{told['TREELINE_METRICS_PORT']}", "127.0.0.1:9090"}
    # Without a token, so that nobody outside of the network may reach it.
    assert not any(told["TREELINE_METRICS_PORT"] in port for port in SERVICES["api"]["ports"])
    provisioning = PROJECT_ROOT / mounted["/etc/grafana/provisioning"]
    [source] = yaml.safe_load((provisioning / "datasources" / "treeline.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "treeline.yml").read_text())["providers"]
    assert list((PROJECT_ROOT / mounted[provider["options"]["path"]]).glob("*.json"))


def test_every_queue_has_a_worker():
    consumed = {s["command"][s["command"].index("-Q") + 1] for s in OURS.values() if "-Q" in s["command"]}
    assert consumed == {queue.name for queue in celery_app.conf.task_queues}


def test_the_image_is_built_from_files_that_exist_and_runs_without_root():
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", DOCKERFILE, re.MULTILINE)
    assert all(re.search(r":\d", image) for image, _ in stages)
    for arguments in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in arguments.split()[:-1]:
            assert (PROJECT_ROOT / source).exists(), f"Dockerfile copies {source}"
            assert f"!{source.split('/')[0]}" in IN_CONTEXT, f".dockerignore hides {source}"
    assert DOCKERFILE.rstrip().splitlines()[-2].startswith("USER 10001")
    default = json.loads(re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)[-1])
    assert default == SERVICES["api"]["command"]
    assert all(service["user"] == "10001:10001" for service in OURS.values())


def test_the_image_knows_its_version_though_nothing_is_installed_there(tmp_path):
    (tmp_path / "backend").mkdir()
    shutil.copyfile(PROJECT_ROOT / "backend" / "program_version.py", tmp_path / "backend" / "program_version.py")
    program = "from backend.program_version import VERSION; print(VERSION)"
    # Without site-packages: the image has the code alone.
    told = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == VERSION
    last = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    assert re.search(r"^COPY backend backend$", last, re.MULTILINE)


# The finder of an editable installation would find the missing modules.
BUILD_ALONE = """
import runpy, sys
sys.meta_path = [each for each in sys.meta_path if "Editable" not in getattr(each, "__name__", "")]
runpy.run_module("backend.kafka.copy.native.build", run_name="__main__")
"""


def test_the_image_builds_the_record_loop_from_the_files_that_it_has_copied(tmp_path):
    """The stage with the compiler copies only part of the code, so that other changes do not rebuild anything."""
    stage = DOCKERFILE[DOCKERFILE.index(" AS packages") : DOCKERFILE.rindex("FROM ")]
    for arguments in re.findall(r"^COPY (backend.*)$", stage, re.MULTILINE):
        *sources, target = arguments.split()
        for source in sources:
            copied = tmp_path / (f"{target}{Path(source).name}" if target.endswith("/") else target)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (PROJECT_ROOT / source).is_dir() else shutil.copyfile
            copy(PROJECT_ROOT / source, copied)
    built = subprocess.run(
        [sys.executable, "-c", BUILD_ALONE],
        cwd=tmp_path,
        env={**os.environ, "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "there is no C compiler" in built.stderr
