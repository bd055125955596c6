"""Valkey of the local estate: a home in which the process was still called `redis` keeps working."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backend.estate.document import read_estate
from backend.estate.home import Home
from backend.estate.plan import Kafka, control_plane_environment, lay_out, make_plan
from backend.estate.ports import Ports, free_ports
from backend.estate.processes import Plan
from backend.estate.programs.broker import kafka_cluster_id
from backend.settings import settings
from tests.support.estate.running import SMALL_ESTATE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    # Configured, so that a plan creates no database of its own.
    monkeypatch.setenv("TREELINE_DATABASE_URL", "postgresql+psycopg://elsewhere/treeline")
    monkeypatch.delenv("TREELINE_CELERY_BROKER_URL", raising=False)
    settings.cache_clear()
    home = Home(tmp_path)
    home.make()
    former = home.data("small") / "redis"
    former.mkdir(parents=True)
    (former / "redis.conf").write_text("requirepass secret")
    (former / "dump.rdb").write_text("nudges")
    home.log("redis").write_text("began")
    (home.logs / "redis.log.1").write_text("older")
    home.secret_path("redis-password").write_text("secret")
    return home


def planned(home: Home) -> Plan:
    ports = Ports(home.data("small") / "ports.json", prefer_defaults=False)
    layout = lay_out(home, read_estate(SMALL_ESTATE), ports)
    ports.remember()
    assert control_plane_environment(layout)["TREELINE_CELERY_BROKER_URL"].startswith("redis://:secret@")
    return make_plan(layout, Kafka(jars=home.path, archive=None), while_pid=None)


def port_of(plan: Plan) -> int | None:
    return next(spec.ready.port for spec in plan.processes if spec.name == "valkey")


def test_a_former_home_keeps_its_port_which_is_remembered_under_the_present_name(home: Home) -> None:
    (port,) = free_ports(1)
    remembered = home.data("small") / "ports.json"
    remembered.write_text(json.dumps({"redis": port}))
    assert port_of(planned(home)) == port
    written = json.loads(remembered.read_text())
    assert written["valkey"] == port and "redis" not in written
    assert port_of(planned(home)) == port, "the next time as well"


def test_a_former_home_keeps_its_log_and_files_under_the_present_names(home: Home) -> None:
    planned(home)
    data = home.data("small")
    assert home.log("valkey").read_text() == "began"
    assert (home.logs / "valkey.log.1").read_text() == "older"
    assert (data / "valkey" / "dump.rdb").read_text() == "nudges"
    assert (data / "valkey" / "valkey.conf").exists()
    assert [path for path in home.path.rglob("redis*") if path.parent.name != "secrets"] == []


def test_a_cluster_that_is_called_redis_stays_where_it_is(home: Home) -> None:
    folder = home.data("small") / "redis"
    known = kafka_cluster_id(folder)
    (folder / "broker-1").mkdir()
    planned(home)
    assert kafka_cluster_id(folder) == known
    assert (folder / "broker-1").is_dir()


def test_what_has_the_present_name_already_is_not_replaced(home: Home) -> None:
    home.log("valkey").write_text("of now")
    planned(home)
    assert home.log("valkey").read_text() == "of now"
    assert home.log("redis").read_text() == "began"
