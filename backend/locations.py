"""Paths of Treeline's own files: in a checkout, in the image, or installed from a wheel.

In a checkout and in the image, the console's pages and the estate files are in folders beside `backend`. In a
wheel they are in `backend/shipped`, where `setup.py` puts them: all installed packages share one folder, in which
names such as `frontend` are not ours to claim.
"""

from __future__ import annotations

import os
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parent.parent
"""Folder of our packages: the checkout, or `site-packages`, to which we must not write."""

_SHIPPED = PROJECT_ROOT / "backend" / "shipped"

FROM_WHEEL = _SHIPPED.is_dir()
"""True if this program was installed from a wheel."""

_DATA = _SHIPPED if FROM_WHEEL else PROJECT_ROOT
FRONTEND = _DATA / "frontend"
ESTATES = _DATA / "estates"

SETTINGS_FILE_VARIABLE = "TREELINE_SETTINGS_FILE"


def settings_file() -> Path:
    """Return the path of the settings file: the one that the environment names, or the working folder's."""
    return Path(os.environ.get(SETTINGS_FILE_VARIABLE) or "treeline.toml")


def default_cache() -> Path:
    """Return the default of `cache`: the checkout's, or the user's where Treeline was installed from a wheel."""
    if not FROM_WHEEL:
        return PROJECT_ROOT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "treeline")
