"""A wheel in an empty environment, in a folder without a checkout: `treeline up` and `treeline verify`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from backend.program_version import VERSION
from tests.project.packaging.conftest import Packed

pytestmark = pytest.mark.nightly

PACKAGES = ("backend", "workers", "spark", "migrations")
NATIVE = "from backend.kafka.copy import native; print(native.module().__file__)"


@dataclass(frozen=True)
class Installed:
    """An environment with nothing but the wheel and the packages that pip installed for it."""

    environment: Path
    folder: Path
    home: Path

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a working folder that has packages of its own."""
        outer = ("TREELINE_", "PYTHON", "PYTEST_", "COLUMNS", "VIRTUAL_ENV")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
        if cache := os.environ.get("TREELINE_CACHE"):
            inherited["TREELINE_CACHE"] = cache
        return subprocess.run(
            [str(self.environment / "bin" / program), *words],
            cwd=self.folder,
            env={**inherited, "TREELINE_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )

    def files(self) -> set[str]:
        site = next(self.environment.glob("lib/python*/site-packages"))
        found = (path for name in PACKAGES for path in (site / name).rglob("*"))
        return {str(path) for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, str(packed.wheel)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    working = folder / "working"
    for name in PACKAGES:
        (working / name).mkdir(parents=True)
        (working / name / "__init__.py").write_text("raise SystemExit('this is not Treeline')\n")
    # Also read by the processes of the estate: settings of `up` apply to all of them.
    (working / "treeline.toml").write_text("verify_partitions = 3\n")
    found = Installed(environment, working, folder / "home")
    yield found
    found.run("treeline", "down", "--wipe")
    shutil.rmtree(environment)  # more than a gigabyte, and pytest keeps the folders of three runs


@pytest.mark.timeout(1800)
def test_an_installed_wheel_boots_the_default_estate_and_proves_it(installed: Installed) -> None:
    before = installed.files()
    assert installed.run("treeline", "--version").stdout == f"treeline {VERSION}\n"
    up = installed.run("treeline", "up", "--json", "--spare-ports", "--while-pid", str(os.getpid()))
    assert up.returncode == 0, up.stderr
    answer = json.loads(up.stdout)
    assert (answer["estate"], answer["ready"], answer["verification"]["ok"]) == ("unbalanced", True, True)
    assert "loop in Python" not in up.stderr

    verified = installed.run("treeline", "verify", "--records", "500", "--json")
    proof = json.loads(verified.stdout)
    assert (verified.returncode, proof["ok"], len(proof["clusters"])) == (0, True, 5)
    assert {(each["expected"], each["distinct"]) for each in proof["clusters"].values()} == {(2500, 2500)}

    with httpx2.Client(base_url=answer["control_plane"], follow_redirects=True) as browser:
        page = browser.get(answer["login_link"])
        assert (page.status_code, "cluster-5" in page.text) == (200, True)
        for name in ("vendor/htmx.js", "vendor/inter.woff2", "console.css"):
            assert browser.get(f"/static/{name}").status_code == 200, name

    assert Path(installed.run("python", "-P", "-c", NATIVE).stdout.strip()).is_file()
    assert installed.run("treeline", "down").returncode == 0
    assert installed.files() == before, "an estate writes nothing into the environment"
