"""Object storage as the router uses it: objects that are written once, read in parts, and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from backend.domain.base.errors import ClusterUnreachable
from backend.kafka.base.references import resolve

_OF_CONNECTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_keep_alive_interval",
    "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses",
    "read_timeout", "root_certificate", "timeout", "user_agent",
})  # fmt: skip
"""Options that obstore wants apart from the others; among them they make it panic."""


_DELETED_SIDE_BY_SIDE = 16


class StorageFailed(Exception):
    """It does not do what it is asked for: it is full, away, slow, or refuses us. Trying again may help."""


class AlreadyWritten(StorageFailed):
    """There is an object of this name: somebody else writes under our name."""


class ObjectMissing(StorageFailed):
    """There is no object of this name, or it is shorter than it was said to be."""


class ObjectStorage:
    """A folder (`file:///…`, which may be a mounted network file system) or a bucket (`s3://bucket/prefix`)."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        """`options` are obstore's for the kind of storage, such as `endpoint` or `region`, and for connections to
        it, such as `allow_http`; values may be references to secrets. What is not given is read from the
        environment (for S3 `AWS_…`).

        Raises StorageFailed if there is no such kind, or an option that nobody knows.
        """
        self._store = _opened(url, dict(options or {}))

    async def put_new(self, name: str, data: bytes) -> None:
        """Write an object that is not there yet. Raises AlreadyWritten, StorageFailed."""
        try:
            await obstore.put_async(self._store, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            raise AlreadyWritten(f"{name} is there already") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None

    async def put_own(self, name: str, data: bytes, head_bytes: int) -> bool:
        """Write an object that is not there yet; whether it is there now, and our own.

        Storage tries again by itself, and tells of its second attempt: an object that begins with the same head,
        which says what process wrote it, is our own. Raises StorageFailed.
        """
        try:
            await self.put_new(name, data)
        except AlreadyWritten:
            try:
                return bytes(await self.get(name, 0, head_bytes)) == data[:head_bytes]
            except ObjectMissing:
                return False
        return True

    async def get(self, name: str, start: int, length: int) -> memoryview:
        """A part of an object. Raises ObjectMissing, StorageFailed."""
        try:
            found = memoryview(await obstore.get_range_async(self._store, name, start=start, length=length))
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {name}") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None
        if len(found) != length:
            raise ObjectMissing(f"{name} ends at byte {start + len(found)}, before {start + length}")
        return found

    async def whole(self, name: str) -> memoryview:
        """All of an object. Raises ObjectMissing, StorageFailed."""
        return await self._got(name, None)

    async def end_of(self, name: str, most_bytes: int) -> memoryview:
        """Its last bytes, or all if they are fewer. Raises ObjectMissing, StorageFailed."""
        return await self._got(name, {"range": {"suffix": most_bytes}})

    async def _got(self, name: str, options: Any) -> memoryview:
        try:
            found = await obstore.get_async(self._store, name, options=options)
            return memoryview(await found.bytes_async())
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {name}") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Of all objects below a prefix, by name. Raises StorageFailed."""
        found: dict[str, int] = {}
        try:
            async for batch in obstore.list(self._store, prefix):
                found |= {each["path"]: each["size"] for each in batch}
        except (BaseError, OSError) as error:
            raise _failed(prefix, error) from None
        return found

    async def delete(self, names: Sequence[str]) -> None:
        """Those that are there, some side by side. Raises StorageFailed."""
        for first in range(0, len(names), _DELETED_SIDE_BY_SIDE):
            await asyncio.gather(*map(self._delete, names[first : first + _DELETED_SIDE_BY_SIDE]))

    async def _delete(self, name: str) -> None:
        try:
            await obstore.delete_async(self._store, name)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None


def _opened(url: str, options: dict[str, str]) -> ObjectStore:
    parts = urlsplit(url)
    try:
        if parts.scheme == "file":
            if options:
                raise StorageFailed(f"{url} is a folder, which has no options such as {next(iter(options))}")
            return LocalStore(prefix=Path(unquote(parts.path)), mkdir=True)
        of_storage: dict[str, str] = {}
        of_connections: dict[str, str] = {}
        for name, value in options.items():
            own_name = name.lower().removeprefix("aws_")
            (of_connections if own_name in _OF_CONNECTIONS else of_storage)[own_name] = resolve(value)
        return from_url(url, config=of_storage, client_options=of_connections)  # type: ignore[call-overload, no-any-return]
    except (BaseError, OSError, ValueError, ClusterUnreachable) as error:
        raise StorageFailed(f"{url} cannot be opened: {_first_line(error)}") from None


def _failed(name: str, error: Exception) -> StorageFailed:
    return StorageFailed(f"{name}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    # What follows is the error once more, with its source and URLs, in Rust's words.
    return str(error).strip().partition("\n")[0]
