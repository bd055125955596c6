"""Build the wheel and the sdist; everything that can be declared is in pyproject.toml and MANIFEST.in.

The console's pages and the estate files are beside the packages in a checkout. A wheel has them in
`backend/shipped` (see backend/locations.py), together with the third-party files that browsers fetch, with their
licences. Those are never committed: `npm ci` brings them to frontend/node_modules, and a build without them is
refused.
"""

import json
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import FileError

SHIPPED = ("frontend/components", "frontend/static", "frontend/templates", "frontend/third-party.json", "estates")
MODULES = Path("frontend/node_modules")


def third_party_files() -> list[Path]:
    """Return the paths of the third-party files and of their licences; refuse to build without any of them."""
    found = []
    for name in json.loads(Path("frontend/third-party.json").read_text()).values():
        parts = Path(name).parts
        package = MODULES.joinpath(*parts[: 2 if parts[0].startswith("@") else 1])
        licences = sorted(package.glob("LICEN[CS]E*"))
        if not (MODULES / name).is_file() or not licences:
            raise FileError(
                f"{MODULES / name} is missing: a wheel brings the files that the console has from npm. "
                "Build with `make wheel`, or run `npm ci` in the folder frontend first."
            )
        found += [MODULES / name, *licences]
    return found


class BuildWithPages(build_py):
    """Build the packages, and add what is beside them in the checkout."""

    def run(self) -> None:
        if self.editable_mode:  # the checkout itself is used
            super().run()
            return
        third_party = third_party_files()
        # What an earlier build left there may have been deleted since.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        target = Path(self.build_lib, "backend", "shipped")
        for place in map(Path, SHIPPED):
            files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
            for file in files:
                _copy(file, target)
        for file in third_party:
            _copy(file, target)


class SdistWithPages(sdist):
    """An sdist with the third-party files, so that a wheel can be built of it without npm."""

    def make_distribution(self) -> None:
        self.filelist.extend(map(str, third_party_files()))
        super().make_distribution()


def _copy(file: Path, target: Path) -> None:
    copied = target / file
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copied)


setup(cmdclass={"build_py": BuildWithPages, "sdist": SdistWithPages})
