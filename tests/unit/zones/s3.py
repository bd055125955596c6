"""A local S3 server (moto's), as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backend.estate.ports import free_ports
from backend.parent_exit import exit_with_parent
from tests.eventually import eventually


@dataclass(frozen=True)
class S3:
    """A running S3 server."""

    endpoint: str

    def bucket(self, name: str) -> str:
        """Create a bucket and return its URL."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        return f"s3://{name}"

    @property
    def options(self) -> dict[str, str]:
        """Return obstore's options for the server, which does not check credentials."""
        return {
            "endpoint": self.endpoint,
            "allow_http": "true",
            "region": "eu-west-1",
            "access_key_id": "anybody",
            "secret_access_key": "anything",
        }


@contextmanager
def local_s3(log: Path) -> Iterator[S3]:
    (port,) = free_ports(1)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=exit_with_parent,
        )
    server = S3(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        try:
            urllib.request.urlopen(server.endpoint, timeout=5).close()
        except OSError:
            return False
        return True

    try:
        eventually(answers, f"the S3 server is ready: {log}")
        yield server
    finally:
        process.kill()
        process.wait(30)
