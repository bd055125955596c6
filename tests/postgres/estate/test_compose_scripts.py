"""The scripts with which docker-compose.yml starts PostgreSQL, Redis and Spark do what they say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa
from redis import AuthenticationError, Redis
from redis.exceptions import ConnectionError as NotThere

from backend.estate.ports import free_ports
from backend.estate.programs.embedded import postgres_programs, redis_program
from backend.estate.programs.postgres import OWNER
from backend.eventlog.engine import create_engine
from tests.eventually import eventually
from tests.project.architecture.sources import PROJECT_ROOT
from tests.support.database.postgres import RunningPostgres

SCRIPTS = PROJECT_ROOT / "deploy" / "compose"
SECRET = "s3cret"


def run(name: str, folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script with nothing in its environment but what is given."""
    return subprocess.run(
        ["sh", SCRIPTS / name, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def before_the_machine_s(folder: Path) -> str:
    """Return a search path that begins with programs from a package."""
    return f"{folder}:{os.defpath}"


def test_spark_gets_a_secret_that_only_it_can_read(tmp_path: Path) -> None:
    environment = {"SPARK_CONF_DIR": str(tmp_path / "spark"), "TREELINE_SPARK_SECRET": SECRET, "PATH": os.defpath}
    done = run("spark.sh", tmp_path, environment, "env")
    assert done.returncode == 0 and "SPARK_CONF_DIR" in done.stdout and SECRET not in done.stdout
    written = tmp_path / "spark" / "spark-defaults.conf"
    assert dict(line.split() for line in written.read_text().splitlines()) == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
    }
    assert written.stat().st_mode & 0o777 == 0o600
    del environment["TREELINE_SPARK_SECRET"]
    assert run("spark.sh", tmp_path, environment, "env").returncode != 0


def test_redis_asks_for_the_password_and_keeps_nothing(tmp_path: Path) -> None:
    [port] = free_ports(1)
    environment = {"REDISCLI_AUTH": SECRET, "PATH": before_the_machine_s(tmp_path)}
    server_program = redis_program()
    assert server_program is not None
    (tmp_path / "redis-server").symlink_to(server_program)
    command = ["sh", str(SCRIPTS / "redis.sh"), "--port", str(port), "--bind", "127.0.0.1"]
    asked = Redis(port=port, password=SECRET, protocol=2)

    def answers() -> bool:
        try:
            return bool(asked.ping())
        except NotThere:
            return False

    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            eventually(answers, "redis answers")
            with pytest.raises(AuthenticationError):
                Redis(port=port, protocol=2).ping()
            assert SECRET not in Path(f"/proc/{server.pid}/cmdline").read_text()
            assert asked.config_get("save") == {"save": ""}
            assert (tmp_path / "redis.conf").stat().st_mode & 0o777 == 0o600
        finally:
            server.terminate()


def test_postgres_gets_the_login_of_the_control_plane(own_postgres: RunningPostgres, tmp_path: Path) -> None:
    server, programs = own_postgres.server, postgres_programs()
    assert programs is not None
    environment = {
        "POSTGRES_USER": OWNER,
        "POSTGRES_DB": "postgres",
        "TREELINE_APPLICATION_PASSWORD": SECRET,
        "PATH": before_the_machine_s(programs),
        # Inside the container it uses the socket, which asks for no password.
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGPASSWORD": server.password,
    }
    done = run("application_login.sh", tmp_path, environment)
    assert done.returncode == 0, done.stderr
    engine = create_engine(
        f"postgresql+psycopg://treeline_login:{SECRET}@127.0.0.1:{server.port}/postgres", role=None
    )
    with engine.connect() as connection:
        rights = "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(sa.text(rights)).scalar_one() is False
    engine.dispose()
    assert run("application_login.sh", tmp_path, environment).returncode != 0, "what fails is not passed over"
