"""`python -m migrations`: migrate the database to the tables of this version, as its owner.

The same as `alembic upgrade head` in a checkout, where `alembic.ini` is; a wheel has none.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config

config = Config()
config.set_main_option("script_location", str(Path(__file__).parent))
config.set_main_option("recursive_version_locations", "true")
command.upgrade(config, "head")
