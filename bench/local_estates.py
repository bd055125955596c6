"""Local estates of a benchmark's own, booted by `treeline up` in temporary homes on free ports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from backend.settings import PROJECT_ROOT

ESTATES = PROJECT_ROOT / "estates"


class Estate:
    """One estate in a home of its own."""

    def __init__(self, home: Path, file: Path) -> None:
        self.home, self.file = home, file

    def treeline(self, *words: str) -> subprocess.CompletedProcess[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("TREELINE_")}
        if cache := os.environ.get("TREELINE_CACHE"):
            outside["TREELINE_CACHE"] = cache
        return subprocess.run(
            [sys.executable, "-m", "backend.cli", *words],
            cwd=PROJECT_ROOT,
            # The local estate, not the control plane of the developer's own context.
            env={**outside, "TREELINE_HOME": str(self.home), "TREELINE_CONTEXT": "local"},
            capture_output=True,
            text=True,
            check=False,
        )

    def up(self, *words: str) -> float:
        """Run `treeline up`; return the seconds that it took. Ends the run (SystemExit) if it fails."""
        began = time.monotonic()
        run = self.treeline("up", "--estate", str(self.file), "--spare-ports", *words)
        if run.returncode:
            sys.exit(f"treeline up: {run.stderr}{run.stdout}")
        return time.monotonic() - began

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.treeline("status", "--json").stdout)
        return answer

    def client(self) -> httpx2.Client:
        """Return a REST client as the administrator; paths are below /api/v1."""
        status = self.status()
        return httpx2.Client(
            base_url=f"{status['control_plane']}/api/v1",
            headers={"Authorization": f"Bearer {status['admin_token']}"},
            timeout=30,
            trust_env=False,
        )

    def verify(self, records: int) -> tuple[float, dict[str, Any]]:
        """Run `treeline verify`; return its seconds and its answer.

        Ends the run (SystemExit) if a record is lost or doubled.
        """
        began = time.monotonic()
        run = self.treeline("verify", "--records", str(records), "--json")
        took = time.monotonic() - began
        answer: dict[str, Any] = json.loads(run.stdout)
        if not answer["ok"]:
            sys.exit(f"treeline verify: {answer['problems'][:5]}")
        return took, answer


@contextmanager
def estate(file: Path) -> Iterator[Estate]:
    """Yield an estate of this file; everything of it that still runs afterwards is ended and wiped."""
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as folder:
        running = Estate(Path(folder) / "home", file)
        try:
            yield running
        finally:
            running.treeline("down", "--wipe")
