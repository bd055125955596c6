"""Static files: our own from frontend/static, third-party ones from where npm installed them.

Every file is listed here by its address, so no path of a request ever reaches the file system. An address carries
a digest of its file: browsers keep the file for good, and a new version has a new address. Text is sent compressed
to browsers that accept it: a first visit must be light (tests/browser/console/test_weight.py).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query
from fastapi.responses import FileResponse, Response

from backend.locations import FRONTEND
from backend.web.frame.compression import accepts_gzip

router = APIRouter(include_in_schema=False)

_OWN = FRONTEND / "static"
_MODULES = FRONTEND / "node_modules"
_FILES: dict[str, Path] = {
    **{path.name: path for path in sorted(_OWN.iterdir())},
    **{name: _MODULES / place for name, place in json.loads((FRONTEND / "third-party.json").read_text()).items()},
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PACKED_ALREADY = {".woff2"}
_FOR_GOOD = "public, max-age=31536000, immutable"


def address(name: str) -> str:
    """Return the address of a file, by its name in `_FILES`."""
    return f"/static/{name}?v={_digest(_FILES[name])}"


@router.get("/static/{name:path}")
def get_file(
    name: str,
    v: Annotated[str | None, Query(max_length=32)] = None,
    accept_encoding: Annotated[str, Header()] = "",
) -> Response:
    """Return a file; 404 for any that is not listed, or that npm did not install."""
    path = _FILES.get(name)
    if path is None or not path.is_file():
        raise HTTPException(404)
    headers = {"Cache-Control": _FOR_GOOD if v == _digest(path) else "no-cache"}
    kind = _TYPES[path.suffix]
    if path.suffix in _PACKED_ALREADY:
        return FileResponse(path, media_type=kind, headers=headers)
    headers["Vary"] = "Accept-Encoding"
    if not accepts_gzip(accept_encoding):
        return FileResponse(path, media_type=kind, headers=headers)
    packed = _packed(path, path.stat().st_mtime_ns)
    return Response(packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})


@cache
def _packed(path: Path, _: int) -> bytes:
    # Without a time in it, so that all processes send the same.
    return gzip.compress(path.read_bytes(), mtime=0)


def _digest(path: Path) -> str:
    # With the time of its last change, so that an edited file shows at the next reload.
    return _digest_of(path, path.stat().st_mtime_ns) if path.is_file() else "missing"


@cache
def _digest_of(path: Path, _: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
