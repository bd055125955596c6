"""A control plane for the commands of the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from backend.estate.programs.embedded import postgres_programs
from backend.settings import PROJECT_ROOT
from tests.project.docs.pages import script
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import Content

NOBODY_LISTENS = "127.0.0.1:9"
BASH_SECONDS = 300
POSTGRES = postgres_programs()


def default_estate_away(database_url: str) -> None:
    """Create the clusters, tree and tenants of the default estate, without running clusters."""
    declared = yaml.safe_load((PROJECT_ROOT / "estates" / "unbalanced.yaml").read_text())
    with serve_here(database_url) as console:
        for name, cluster in declared["clusters"].items():
            fields = {key: value for key, value in cluster.items() if key != "brokers"}
            body = {"name": name, "bootstrap_servers": NOBODY_LISTENS, "accept_offline": True, **fields}
            console.rest.ok("POST", "/clusters", body)
        console.rest.ok("PUT", "/trees/main", declared["tree"])
        console.rest.ok("POST", "/tenants", {"name": "acme"})
        console.rest.ok("POST", "/tenants/acme/instances", {"name": "retail"})
        below = "/tenants/acme/instances/retail/environments"
        console.rest.ok("POST", below, {"name": "prod"})
        for stream in ("orders", "payments"):
            console.rest.ok("POST", f"{below}/prod/streams", {"name": stream, "partitions": 4})


@pytest.fixture
def database_content() -> Content | None:
    return default_estate_away


def run_page(page: Path, tested: str, folder: Path, url: str, token: str, **variables: str) -> None:
    """Run the tested blocks of a page as a user would, in an empty folder with the page's files."""
    files, commands = script(page, tested)
    for name, text in files.items():
        (folder / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TREELINE_")}
    environment |= {"TREELINE_URL": url, "TREELINE_TOKEN": token, "HOME": str(folder), **variables}
    environment["PATH"] = f"{Path(sys.executable).parent}:{POSTGRES}:{environment['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BASH_SECONDS,
    )
    assert ended.returncode == 0, f"{ended.stdout[-1500:]}\n{ended.stderr[-2500:]}"
