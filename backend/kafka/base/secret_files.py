"""Reading of the files that clusters' properties name: secrets, certificates and keys.

A user who may edit a cluster chooses the path. Therefore a path is allowed only in one of TREELINE_SECRET_FOLDERS,
is otherwise refused without touching the file system (the answer must not reveal whether a file exists), and is
read here, once, into memory: librdkafka would open it while it holds Python's interpreter lock, and a FIFO or a
terminal would block the whole process.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backend.locations import settings_file
from backend.settings import settings

SETTINGS_FILE = "treeline.toml"
_NEVER = ("/proc", "/sys", "/dev")
# The only secret of the local estate that is meant for clusters, which are created with it.
LOCAL_PASSWORD = "secrets/kafka-password"


class FileRefused(Exception):
    """A file that must not be read for a cluster: its path, its kind or its size is not allowed."""


def check_path(path: str) -> None:
    """Raise FileRefused unless the path is allowed. Files outside the folders are never touched."""
    _place_of(path)


def read_for_cluster(path: str, most_bytes: int) -> bytes:
    """Return the contents of a file in one of the folders for secrets.

    Raises FileRefused for a path outside them, for anything but a regular file and for one that is too large;
    OSError if an allowed file cannot be read.
    """
    folder, parts = _place_of(path)
    return _read(_opened(folder, parts, path), path, most_bytes)


def read_of_local_estate(path: str, most_bytes: int) -> bytes | None:
    """Return the password of the local estate's clusters if the path is its file, otherwise None."""
    home = os.path.realpath(settings().home)
    if os.path.normpath(path) not in {os.path.join(each, LOCAL_PASSWORD) for each in (home, settings().home)}:
        return None
    return _read(_opened(home, tuple(Path(LOCAL_PASSWORD).parts), path), path, most_bytes)


def read_for_owner(path: str, most_bytes: int) -> bytes:
    """Return the contents of a file that a setting, or another file of the process's owner, names.

    Its path may be anywhere: the author of settings has the process's rights. Raises FileRefused and OSError.
    """
    return _read(os.open(path, _FILE), path, most_bytes)


# Without blocking: opening a pipe that has no writer would hold this thread for ever.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def _place_of(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the folder for secrets that contains a path, and the names below it, with links inside resolved."""
    config = settings()
    home = os.path.realpath(config.home)
    wanted = os.path.normpath(path)
    for named in config.secret_folders:
        folder = os.path.realpath(named)
        for begin in {os.path.normpath(named), folder}:
            if not _is_below(wanted, begin):
                continue
            # Only now is the file system read. Kubernetes' secrets are links, each to a place in its folder.
            real = os.path.realpath(os.path.join(folder, os.path.relpath(wanted, begin)))
            if _is_below(real, folder) and not _is_never_read(real, home):
                return folder, Path(os.path.relpath(real, folder)).parts
    if not config.secret_folders:
        raise FileRefused(
            f"{path[:200]} is not allowed: no folder for files of clusters is set; list the folders in "
            "TREELINE_SECRET_FOLDERS"
        )
    raise FileRefused(
        f"{path[:200]} is not allowed: it is in none of the folders for files of clusters "
        "(TREELINE_SECRET_FOLDERS)"
    )


def _is_never_read(real: str, home: str) -> bool:
    is_settings = os.path.basename(real) == SETTINGS_FILE or real == os.path.realpath(settings_file())
    return is_settings or any(_is_below(real, each) for each in (home, *_NEVER))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _opened(folder: str, parts: tuple[str, ...], path: str) -> int:
    """Open a file name by name below its folder, so that a link created since the check is refused."""
    opened = os.open(folder, _FOLDER)
    try:
        for name in parts[:-1]:
            below = os.open(name, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        return os.open(parts[-1], _FILE | os.O_NOFOLLOW, dir_fd=opened)
    finally:
        os.close(opened)


def _read(opened: int, path: str, most_bytes: int) -> bytes:
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileRefused(f"{path[:200]} is no regular file")
    with open(opened, "rb") as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise FileRefused(f"{path[:200]} has more than {most_bytes} bytes")
    return found
