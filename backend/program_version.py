"""Which version of Treeline runs."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version

from backend.settings import PROJECT_ROOT


def program_version() -> str:
    """That of the installed package; in the image, which has the code alone, that of `pyproject.toml`."""
    try:
        return version("treeline")
    except PackageNotFoundError:
        project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())
        return str(project["project"]["version"])
