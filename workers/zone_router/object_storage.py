"""Object storage for the router: objects are written once, read in ranges, and deleted."""

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

_CLIENT_OPTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_keep_alive_interval",
    "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses",
    "read_timeout", "root_certificate", "timeout", "user_agent",
})  # fmt: skip
"""Options that obstore takes as client options; among the storage options they make it panic."""


_CONCURRENT_DELETES = 16


class StorageFailed(Exception):
    """Object storage failed: it is full, unreachable, slow, or denies access. A retry may help."""


class AlreadyWritten(StorageFailed):
    """An object of this name exists: another process writes under our name."""


class ObjectMissing(StorageFailed):
    """The object does not exist, or is shorter than expected."""


class ObjectStorage:
    """A folder (`file:///…`, which may be a network mount) or a bucket (`s3://bucket/prefix`)."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        """Open the storage.

        `options` are obstore's for the kind of storage, such as `endpoint` or `region`, and for connections, such
        as `allow_http`; values may be references to secrets. Missing options are read from the environment (for S3
        `AWS_…`).

        Raises StorageFailed for an unknown kind of storage or an unknown option.
        """
        self._store = _opened(url, dict(options or {}))

    async def put_new(self, name: str, data: bytes) -> None:
        """Write a new object. Raises AlreadyWritten, StorageFailed."""
        try:
            await obstore.put_async(self._store, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            raise AlreadyWritten(f"{name} already exists") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None

    async def put_own(self, name: str, data: bytes, head_bytes: int) -> bool:
        """Write a new object; return whether it exists now and is ours.

        The storage client retries by itself, so the object may exist from its first attempt. An object that begins
        with our head, which identifies the process, is ours. Raises StorageFailed.
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
        """Return a range of an object. Raises ObjectMissing, StorageFailed."""
        try:
            found = memoryview(await obstore.get_range_async(self._store, name, start=start, length=length))
        except FileNotFoundError:
            raise ObjectMissing(f"{name} does not exist") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None
        if len(found) != length:
            raise ObjectMissing(f"{name} ends at byte {start + len(found)}, before {start + length}")
        return found

    async def whole(self, name: str) -> memoryview:
        """Return a whole object. Raises ObjectMissing, StorageFailed."""
        return await self._read(name, None)

    async def end_of(self, name: str, most_bytes: int) -> memoryview:
        """Return the last bytes of an object, or all if it is shorter. Raises ObjectMissing, StorageFailed."""
        return await self._read(name, {"range": {"suffix": most_bytes}})

    async def _read(self, name: str, options: Any) -> memoryview:
        try:
            found = await obstore.get_async(self._store, name, options=options)
            return memoryview(await found.bytes_async())
        except FileNotFoundError:
            raise ObjectMissing(f"{name} does not exist") from None
        except (BaseError, OSError) as error:
            raise _failed(name, error) from None

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes of all objects below a prefix, by name. Raises StorageFailed."""
        found: dict[str, int] = {}
        try:
            async for batch in obstore.list(self._store, prefix):
                found |= {each["path"]: each["size"] for each in batch}
        except (BaseError, OSError) as error:
            raise _failed(prefix, error) from None
        return found

    async def delete(self, names: Sequence[str]) -> None:
        """Delete the objects that exist, some concurrently. Raises StorageFailed."""
        for first in range(0, len(names), _CONCURRENT_DELETES):
            await asyncio.gather(*map(self._delete, names[first : first + _CONCURRENT_DELETES]))

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
                raise StorageFailed(f"{url} is a folder, which takes no options; remove {next(iter(options))}")
            return LocalStore(prefix=Path(unquote(parts.path)), mkdir=True)
        storage_options: dict[str, str] = {}
        client_options: dict[str, str] = {}
        for name, value in options.items():
            own_name = name.lower().removeprefix("aws_")
            (client_options if own_name in _CLIENT_OPTIONS else storage_options)[own_name] = resolve(value)
        return from_url(url, config=storage_options, client_options=client_options)  # type: ignore[call-overload, no-any-return]
    except (BaseError, OSError, ValueError, ClusterUnreachable) as error:
        raise StorageFailed(f"{url} cannot be opened: {_first_line(error)}") from None


def _failed(name: str, error: Exception) -> StorageFailed:
    return StorageFailed(f"{name}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    # The following lines repeat the error with its source and URLs, as Rust formats it.
    return str(error).strip().partition("\n")[0]
