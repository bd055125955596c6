"""Path of the compiled record loop: beside its sources in a checkout and in the image, in the cache for a wheel.

A wheel is installed into a folder that belongs to pip, and perhaps to another user. In the cache, the folder's
name is a digest of the sources and the confluent-kafka version, so other versions never load it.
"""

from __future__ import annotations

import hashlib
import sysconfig
from importlib import metadata
from pathlib import Path

from backend.locations import FROM_WHEEL

MODULE = "backend.kafka.copy.native._record_loop"
SOURCES = Path(__file__).parent


def built() -> Path:
    """Return the path of the compiled module for the running Python and confluent-kafka; it may not exist."""
    name = f"_record_loop{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not FROM_WHEEL:
        return SOURCES / name
    # Not at the top: the image compiles the loop with a few of our modules, and again only when these change.
    from backend.settings import settings

    digest = hashlib.sha256(metadata.version("confluent-kafka").encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return settings().cache.absolute() / f"record-loop-{digest.hexdigest()[:16]}" / name
