"""Files that browsers fetch: our own from frontend/static, third-party ones from where npm put them.

Every file is listed here by its address, so no path of a request ever reaches the file system. An address carries
a digest of its file: browsers keep the file for good, and a new one has a new address.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse

from backend.settings import PROJECT_ROOT

router = APIRouter(include_in_schema=False)

_OWN = PROJECT_ROOT / "frontend" / "static"
_MODULES = PROJECT_ROOT / "frontend" / "node_modules"
_FILES: dict[str, Path] = {
    **{path.name: path for path in sorted(_OWN.iterdir())},
    "vendor/htmx.js": _MODULES / "htmx.org/dist/htmx.min.js",
    "vendor/sse.js": _MODULES / "htmx-ext-sse/dist/sse.min.js",
    "vendor/idiomorph.js": _MODULES / "idiomorph/dist/idiomorph-ext.min.js",
    "vendor/inter.woff2": _MODULES / "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_FOR_GOOD = "public, max-age=31536000, immutable"


def address(name: str) -> str:
    """Where a browser finds a file, by its name in `_FILES`."""
    return f"/static/{name}?v={_digest(_FILES[name])}"


@router.get("/static/{name:path}")
def get_file(name: str, v: Annotated[str | None, Query(max_length=32)] = None) -> FileResponse:
    """A file; 404 for any that is not listed, or that npm did not install."""
    path = _FILES.get(name)
    if path is None or not path.is_file():
        raise HTTPException(404)
    caching = _FOR_GOOD if v == _digest(path) else "no-cache"
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"Cache-Control": caching})


def _digest(path: Path) -> str:
    # With the time of its last change, so that an edited file shows at the next reload.
    return _digest_of(path, path.stat().st_mtime_ns) if path.is_file() else "missing"


@cache
def _digest_of(path: Path, _: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
