"""`packed`: a wheel and an sdist, built from the files that git knows, and the wheel unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.settings import PROJECT_ROOT

_SDIST = "import setuptools.build_meta as backend; backend.build_sdist('dist')"


@dataclass(frozen=True)
class Packed:
    """Packages built from `source`; `site` is a folder with nothing but the unpacked wheel."""

    source: Path
    wheel: Path
    sdist: Path
    site: Path

    def wheel_files(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return {name for name in archive.namelist() if not name.endswith("/")}

    def sdist_files(self) -> set[str]:
        """Return the names of the files without the folder that they are all in."""
        with tarfile.open(self.sdist) as archive:
            return {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}

    def metadata(self) -> str:
        with zipfile.ZipFile(self.wheel) as archive:
            return archive.read(f"treeline-{self.wheel.name.split('-')[1]}.dist-info/METADATA").decode()


@pytest.fixture(scope="session")
def tracked() -> list[str]:
    """Return every file of the checkout that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in listed.stdout.split("\0") if name and (PROJECT_ROOT / name).is_file())


@pytest.fixture(scope="session")
def source(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a fresh clone, without tests and docs."""
    target = tmp_path_factory.mktemp("source")
    for name in tracked:
        if not name.startswith(("tests/", "docs/", "bench/", "changelog/")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT_ROOT / name, target / name)
    return target


def build(source: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist of the project in this folder."""
    dist = source / "dist"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    for command in (pip, [sys.executable, "-c", _SDIST]):
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def packed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    modules = source / "frontend" / "node_modules"
    modules.symlink_to(PROJECT_ROOT / "frontend" / "node_modules")
    wheel, sdist = build(source)
    modules.unlink()
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return Packed(source, wheel, sdist, site)


def outside(
    site: Path, folder: Path, *words: str, given: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder` with the packages of `site` before all others."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TREELINE_")}
    return subprocess.run(
        [sys.executable, "-P", *words],
        input=given,
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
