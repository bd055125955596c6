"""Older releases of confluent-kafka, each in a folder of its own beside the virtual environment's packages.

Clients in use are years older than brokers, and detect a broker's features in other ways. `make install-dev`
installs them; where that has not been run, the first test that needs one does.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from backend.settings import PROJECT_ROOT

OLDER = ("2.3.0", "2.6.1")
NEWEST = "newest"
"""The release that Treeline itself uses."""
RELEASES = (*OLDER, NEWEST)
_FOLDER = Path(sys.prefix) / "older-clients"


def environment(release: str) -> dict[str, str]:
    """Return what a process needs in its environment so that `import confluent_kafka` gives this release."""
    return {} if release == NEWEST else {"PYTHONPATH": str(_installed(release))}


def _installed(release: str) -> Path:
    """Return the folder of a release, which is installed if it is not there yet."""
    folder, pinned = _FOLDER / release, PROJECT_ROOT / "requirements" / f"confluent-kafka-{release}.txt"
    stamp = folder / "requirements.txt"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        # Tests run in parallel; two that install into one folder would spoil it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != pinned.read_text():
            words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--upgrade"]
            where = ["--require-hashes", "--requirement", str(pinned), "--target", str(folder)]
            subprocess.run([sys.executable, "-m", "pip", "install", *words, *where], check=True)
            stamp.write_text(pinned.read_text())
    return folder


if __name__ == "__main__":
    for each in OLDER:
        _installed(each)
