"""A real control plane that the nodes of a router report to, and which may be away."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.console.consoles import TOKEN, Console, serve
from tests.support.database.postgres import Database
from tests.support.zones.nodes import Router

EPOCH_SECONDS = 1.0
READS = {"commit_ms": 60_000, "acks": "confirmwal", "cache_bytes": 4 << 20, "block_cache_bytes": 4 << 20}
"""Limits under which blocks are only written at the end of an epoch."""


@dataclass
class Control:
    """A control plane, which may be away, and a router whose nodes report to it."""

    database: Database
    router: Router
    port: int
    folder: Path
    served: ExitStack = field(default_factory=ExitStack)
    lives: bool = False

    def start(self) -> None:
        if not self.lives:
            self.served.enter_context(serve(self.database.url, self.folder / "api.log", self.port))
            self.lives = True

    def end(self) -> None:
        self.served.close()
        self.lives = False

    def living(self) -> list[dict[str, Any]]:
        """Return the nodes that have reported recently."""
        nodes = self.get("/zones")["nodes"]
        return [each for each in nodes if not each["fenced"] and each["age_seconds"] < 5]

    def get(self, path: str) -> Any:
        return Console(f"http://127.0.0.1:{self.port}", TOKEN).rest.ok("GET", path)
