"""PostgreSQL for root, with programs and data below a folder that only root may enter, such as /root."""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from backend.estate.programs.postgres import PostgresServer


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_root_may_install_into_a_folder_that_nobody_else_enters(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    installed = PostgresServer(data_dir=private / "data" / "postgres", port=1, password="not guessed")
    site = Path(sysconfig.get_paths()["purelib"])
    program = next(Path(word).relative_to(site) for word in installed.command() if word.startswith(str(site)))
    package = program.parts[0]
    for each in site.glob(f"{package}*"):
        if each.is_dir():
            shutil.copytree(each, private / each.name)
    # Programs are named, not found by import: another test of this process may have imported the package.
    server = replace(installed, programs=private / program.parent)
    assert str(private / package) in " ".join(server.command())
    server.initialise()
    assert (server.data_dir / "PG_VERSION").is_file()
