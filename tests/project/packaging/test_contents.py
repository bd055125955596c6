"""The wheel and the sdist have every file that the program needs, and no others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import treeline_client

from backend.program_version import VERSION
from backend.settings import PROJECT_ROOT
from tests.project.packaging.conftest import Packed, build

PACKAGES = ("backend/", "workers/", "spark/", "migrations/")
FOLDERS = ("components/", "static/", "templates/", "third-party.json")
SHIPPED = ("estates/", *(f"frontend/{name}" for name in FOLDERS))
THIRD_PARTY = json.loads((PROJECT_ROOT / "frontend" / "third-party.json").read_text())


def files_of_packages(tracked: list[str]) -> set[str]:
    return {name for name in tracked if name.startswith(PACKAGES)}


def test_the_wheel_has_every_file_of_the_packages_and_nothing_else(packed: Packed, tracked: list[str]) -> None:
    shipped = {f"backend/shipped/{name}" for name in tracked if name.startswith(SHIPPED)}
    modules = "backend/shipped/frontend/node_modules/"
    own = {name for name in packed.wheel_files() if ".dist-info/" not in name and not name.startswith(modules)}
    assert own == files_of_packages(tracked) | shipped


def test_the_wheel_has_the_third_party_files_with_their_licences_and_no_more_of_them(packed: Packed) -> None:
    modules = "backend/shipped/frontend/node_modules/"
    found = {name.removeprefix(modules) for name in packed.wheel_files() if name.startswith(modules)}
    licences = {name for name in found if Path(name).name == "LICENSE"}
    assert found - licences == set(THIRD_PARTY.values())
    assert {name.removesuffix("LICENSE") for name in licences} == {
        re.sub(r"(dist|files)/.*", "", name) for name in THIRD_PARTY.values()
    }


@pytest.mark.nightly  # files of sdist and wheel stay
def test_a_wheel_can_be_built_of_the_sdist_without_npm_and_is_the_same(packed: Packed, tmp_path: Path) -> None:
    with tarfile.open(packed.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    wheel, _ = build(tmp_path / packed.sdist.name.removesuffix(".tar.gz"))
    with zipfile.ZipFile(wheel) as of_sdist, zipfile.ZipFile(packed.wheel) as of_checkout:
        both = (of_sdist, of_checkout)
        contents = [{each.filename: each.CRC for each in archive.infolist()} for archive in both]
    record = f"treeline-{VERSION}.dist-info/RECORD"
    assert [each.pop(record) > 0 for each in contents] == [True, True]
    assert contents[0] == contents[1]


def test_the_sdist_has_nothing_that_git_does_not_know_but_third_party_files(
    packed: Packed, tracked: list[str]
) -> None:
    generated = ("PKG-INFO", "setup.cfg", "treeline.egg-info/", "frontend/node_modules/")
    assert {name for name in packed.sdist_files() - set(tracked) if not name.startswith(generated)} == set()
    assert {"LICENSE", "README.md", "CHANGELOG.md"} <= packed.sdist_files()


def test_a_build_without_the_files_of_npm_is_refused_with_what_to_do(source: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(source, clone, ignore=shutil.ignore_patterns("node_modules", "dist", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    refused = subprocess.run(pip, cwd=clone, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and not list(clone.glob("dist/*.whl"))
    said = refused.stdout + refused.stderr
    assert "frontend/node_modules/htmx.org/dist/htmx.min.js is missing" in said and "`make wheel`" in said


def test_the_wheel_names_its_version_licence_and_what_it_needs(packed: Packed) -> None:
    assert packed.wheel.name == f"treeline-{VERSION}-py3-none-any.whl"
    metadata = packed.metadata()
    assert f"\nVersion: {VERSION}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    with zipfile.ZipFile(packed.wheel) as archive:
        licence = archive.read(f"treeline-{VERSION}.dist-info/licenses/LICENSE")
    assert licence == (PROJECT_ROOT / "LICENSE").read_bytes()
    wanted = {
        line
        for name in ("runtime.in", "spark.in")
        for line in (PROJECT_ROOT / "requirements" / name).read_text().splitlines()
        if line and not line.startswith("#")
    }
    assert set(re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)) == wanted


def test_the_client_package_is_complete_and_carries_its_version_and_licence(
    tracked: list[str], tmp_path: Path
) -> None:
    client = tmp_path / "client"
    for name in tracked:
        if name.startswith("client/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT_ROOT / name, tmp_path / name)
    wheel, sdist = build(client)
    version = treeline_client.__version__
    assert (wheel.name, sdist.name) == (
        f"treeline_client-{version}-py3-none-any.whl",
        f"treeline_client-{version}.tar.gz",
    )
    modules = {name.removeprefix("client/") for name in tracked if name.startswith("client/treeline_client/")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read(f"treeline_client-{version}.dist-info/licenses/LICENSE")
    assert {name for name in names if ".dist-info/" not in name} == modules
    with tarfile.open(sdist) as archive:
        packed = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    assert {name.removeprefix("client/") for name in tracked if name.startswith("client/")} <= packed


def test_both_licences_are_the_whole_apache_licence() -> None:
    text = (PROJECT_ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert (PROJECT_ROOT / "client" / "LICENSE").read_text() == text


def test_the_changelog_begins_with_the_version_that_is_built() -> None:
    released = re.findall(
        r"^## (\S+) - \d{4}-\d\d-\d\d$", (PROJECT_ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert released[0] == VERSION == treeline_client.__version__
