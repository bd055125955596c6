"""Facts that a test leaves for the reports of the documentation, if they are requested (`make reports`)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FOLDER = "TREELINE_REPORTS"


def leave(name: str, facts: Any) -> None:
    """Write facts to a file of this name in the folder that TREELINE_REPORTS names, if it is set."""
    if FOLDER in os.environ:
        (Path(os.environ[FOLDER]) / f"{name}.json").write_text(json.dumps(facts))
