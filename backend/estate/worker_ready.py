"""Imported by the estate's Celery workers (`-I`): tells the supervisor when a worker accepts work.

Celery prints that only at log level info, where it prints every message as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from celery.signals import worker_ready


@worker_ready.connect  # type: ignore[untyped-decorator]
def _tell(**_: object) -> None:
    if path := os.environ.get("TREELINE_READY_FILE"):
        Path(path).touch()
