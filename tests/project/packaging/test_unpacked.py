"""Everything in the wheel works without a checkout: modules, pages, estate files, migrations, native loop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from backend.program_version import VERSION
from backend.web.frame import static, templates
from tests.project.packaging.conftest import Packed, outside

MODULES = """
import importlib, json, sys
print(json.dumps({name: importlib.import_module(name).__file__ for name in json.load(sys.stdin)}))
"""
# These programs act on import; the nightly test runs them. Alembic's files are loaded below.
PROGRAMS = ("__main__", "migrations.env", "migrations.versions.")
PAGES = """
import json
from backend.web.frame import static, templates
names = templates._environment.list_templates()
for name in names:
    templates._environment.get_template(name)
print(json.dumps({"templates": names, "files": {name: static.address(name) for name in static._FILES}}))
"""
DATA = """
import json
from alembic.config import Config
from alembic.script import ScriptDirectory
from backend.api.frame.services import Services
from backend.commands.estate.estate import DEFAULT_ESTATE
from backend.estate.document import read_estate
from backend.estate.programs.jars import POM
from backend.settings import settings
services = Services(settings())
print(json.dumps({
    "estates": {path.name: read_estate(path).name for path in DEFAULT_ESTATE.parent.glob("*.yaml")},
    "default": str(DEFAULT_ESTATE),
    "pom": POM.is_file(),
    "migration": services.newest_migration,
    "cache": str(settings().cache),
}))
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a working folder whose own `backend` must not be mistaken for ours."""
    folder = tmp_path / "elsewhere"
    (folder / "backend").mkdir(parents=True)
    (folder / "backend" / "__init__.py").write_text("raise SystemExit('this is not Treeline')\n")
    return folder


def answer(packed: Packed, folder: Path, program: str, given: object = None, **environment: str) -> dict[str, Any]:
    done = outside(packed.site, folder, "-c", program, given=json.dumps(given), environment=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.nightly  # test_contents compares the files
def test_every_module_of_the_wheel_can_be_imported(packed: Packed, elsewhere: Path) -> None:
    files = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): str(packed.site / name)
        for name in packed.wheel_files()
        if name.endswith(".py")
    }
    modules = [name for name in files if not any(program in name for program in PROGRAMS)]
    assert len(modules) > 800
    assert answer(packed, elsewhere, MODULES, modules) == {name: files[name] for name in modules}


def test_every_page_and_every_file_that_browsers_fetch_is_there(packed: Packed, elsewhere: Path) -> None:
    found = answer(packed, elsewhere, PAGES)
    assert found["templates"] == templates._environment.list_templates()
    files = found["files"]
    assert files.keys() == static._FILES.keys()
    assert {name: where for name, where in files.items() if where.endswith("=missing")} == {}


def test_estates_migrations_and_the_pom_are_found(packed: Packed, elsewhere: Path) -> None:
    found = answer(packed, elsewhere, DATA, XDG_CACHE_HOME=str(elsewhere / "caches"))
    assert found["default"] == str(packed.site / "backend" / "shipped" / "estates" / "unbalanced.yaml")
    assert {"unbalanced.yaml", "balanced.yaml", "replicated.yaml", "secured.yaml"} <= found["estates"].keys()
    assert found["pom"] is True
    assert found["migration"] == max(
        path.stem for path in (packed.site / "migrations" / "versions").rglob("0*.py")
    )
    assert found["cache"] == str(elsewhere / "caches" / "treeline"), "site-packages is not ours to write to"


def test_the_program_tells_its_version(packed: Packed, elsewhere: Path) -> None:
    told = outside(packed.site, elsewhere, "-m", "backend.cli", "--version")
    assert (told.returncode, told.stdout) == (0, f"treeline {VERSION}\n")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.nightly  # test_build
def test_the_native_loop_is_built_into_the_cache(packed: Packed, elsewhere: Path) -> None:
    before = sorted(packed.site.rglob("*"))
    cache = {"TREELINE_CACHE": str(elsewhere / "cache")}
    built = outside(packed.site, elsewhere, "-m", "backend.kafka.copy.native.build", environment=cache)
    assert (built.returncode, built.stderr) == (0, "")
    shown = "from backend.kafka.copy import native; print(native.module().__file__)"
    loaded = outside(packed.site, elsewhere, "-c", shown, environment=cache)
    assert loaded.stdout.startswith(str(elsewhere / "cache" / "record-loop-")), loaded.stderr
    assert sorted(packed.site.rglob("*")) == before


def test_without_a_compiler_one_line_says_so_and_the_loop_in_python_is_used(
    packed: Packed, elsewhere: Path
) -> None:
    cache = {"TREELINE_CACHE": str(elsewhere / "cache"), "CC": "no-such-compiler"}
    built = outside(packed.site, elsewhere, "-m", "backend.kafka.copy.native.build", environment=cache)
    (line,) = built.stderr.splitlines()
    assert built.returncode == 0 and "loop in Python" in line and "no-such-compiler" in line
    asked = "from backend.kafka.copy import native; print(native.available())"
    assert outside(packed.site, elsewhere, "-c", asked, environment=cache).stdout.splitlines()[-1] == "False"
