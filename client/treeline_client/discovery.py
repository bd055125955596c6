"""Discovery over HTTP, on one kept connection, and the file that caches its last answer."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from treeline_client.answers import MOST_BYTES, Answer, NotAnAnswer, parse
from treeline_client.configuration import Configuration
from treeline_client.errors import DiscoveryRefused, DiscoveryUnavailable

_PATH = "/api/v1/discovery"
_CONNECT_SECONDS = 3.0
_REFUSALS = frozenset({400, 401, 403, 404, 409, 422})
_GONE_IDLE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class Discovery:
    """Discovery for one client. One thread at a time may send requests; any thread may interrupt them."""

    def __init__(self, configuration: Configuration, client_id: str, role: str) -> None:
        self._configuration = configuration
        self._client_id = client_id
        self._role = role
        self._url = urlsplit(configuration.url)
        self._connection: http.client.HTTPConnection | None = None
        self._cut = False

    def ask(
        self, generation: int | None, phase: str, wait_ms: int, still_in: int | None = None
    ) -> tuple[Answer, bytes]:
        """Request an answer, reporting the client's generation and phase; return it and its raw bytes.

        `still_in`: an earlier generation on whose cluster the client still reads or writes during its move.

        The control plane holds the request for up to `wait_ms` until something differs from the report. Raises
        DiscoveryRefused if the control plane refuses, DiscoveryUnavailable for everything else: no connection, no
        answer in time, an invalid answer.
        """
        names = self._configuration
        query = {**names.names, "client_id": self._client_id, "role": self._role, "phase": phase}
        if names.zone:
            query["zone"] = names.zone
        if generation is not None:
            query["generation"] = str(generation)
        if still_in is not None:
            query["still_in"] = str(still_in)
        if wait_ms:
            query["wait_ms"] = str(wait_ms)
        within = wait_ms / 1000 + names.request_timeout_s
        status, body = self._request("GET", f"{_PATH}?{urlencode(query)}", within)
        if status in _REFUSALS:
            raise DiscoveryRefused(status, _detail(body))
        if status != 200:
            raise DiscoveryUnavailable(f"the control plane answered {status}", True)
        try:
            return parse(body), body
        except NotAnAnswer as error:
            raise DiscoveryUnavailable(f"the control plane's answer is invalid: {error}", True) from None

    def unregister(self, within_s: float) -> None:
        """Unregister this client, so that no switch waits for it; a failure is ignored."""
        self._cut = False
        path = f"{_PATH}/clients/{quote(self._client_id, safe='')}?{urlencode(self._configuration.names)}"
        with contextlib.suppress(DiscoveryUnavailable):
            self._request("DELETE", path, within_s)
        self._drop()

    def interrupt(self) -> None:
        """Interrupt the running request from another thread; it and all later ones fail."""
        self._cut = True
        self._shut()

    def _request(self, method: str, path: str, within_s: float) -> tuple[int, bytes]:
        kept = self._connection is not None
        try:
            return self._send(method, path, within_s)
        except DiscoveryUnavailable as error:
            # A server may close an idle connection. The request was then not read, or a second one has no further
            # effect.
            if kept and isinstance(error.__cause__, _GONE_IDLE) and not self._cut:
                return self._send(method, path, within_s)
            raise

    def _send(self, method: str, path: str, within_s: float) -> tuple[int, bytes]:
        connection = self._connected(min(within_s, _CONNECT_SECONDS))
        # One timer for the whole request: a server that sends a byte now and then would evade a socket timeout.
        end = threading.Timer(within_s, self._shut)
        end.daemon = True
        end.start()
        try:
            headers = {"Authorization": f"Bearer {self._configuration.token}", "Accept": "application/json"}
            connection.request(method, self._url.path + path, headers=headers)
            response = connection.getresponse()
            body = response.read(MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            # Show the failure's text only: the request carries the token.
            raise DiscoveryUnavailable(f"no answer: {type(error).__name__}: {error}", True) from error
        finally:
            end.cancel()
        if len(body) > MOST_BYTES or response.will_close:
            self._drop()
        if len(body) > MOST_BYTES:
            raise DiscoveryUnavailable(f"the control plane's answer is longer than {MOST_BYTES} bytes", True)
        return response.status, body

    def _connected(self, within_s: float) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._url.hostname or "", self._url.port
            made: http.client.HTTPConnection
            if self._url.scheme == "https":
                context = ssl.create_default_context(cafile=self._configuration.ca_location or None)
                made = http.client.HTTPSConnection(host, port, timeout=within_s, context=context)
            else:
                made = http.client.HTTPConnection(host, port, timeout=within_s)
            try:
                made.connect()
            except OSError as error:
                made.close()
                raise DiscoveryUnavailable(f"no connection: {type(error).__name__}: {error}", False) from error
            made.sock.settimeout(None)  # the timer ends requests
            self._connection = made
        if self._cut:
            self._drop()
            raise DiscoveryUnavailable("interrupted", False)
        return self._connection

    def _shut(self) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _detail(body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found["detail"])[:1000]
    except (ValueError, RecursionError, TypeError, KeyError):
        return "no reason given"


class Cache:
    """Cache of the last answer in a file, for starts without a control plane. It never holds the token."""

    def __init__(self, configuration: Configuration) -> None:
        names = [configuration.url, *configuration.names.values(), configuration.zone]
        self._path: Path | None = None
        if configuration.cache_directory is not None:
            # Use a digest, since names may contain characters that file names cannot.
            digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]
            self._path = configuration.cache_directory / f"discovery-{digest}.json"
        self._kept: bytes | None = None

    def read(self) -> Answer | None:
        """Return the cached answer; None if there is none, or none that is valid."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                return parse(file.read(MOST_BYTES))
        except (OSError, NotAnAnswer):
            return None

    def keep(self, answer: Answer, body: bytes) -> None:
        """Cache an answer, atomically and readable by its owner only; a failure is ignored.

        A higher generation that another process has cached stays.
        """
        if self._path is None or body == self._kept:
            return
        there = self.read()
        if there is not None and there.generation > answer.generation:
            return
        self._kept = body
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".discovery-")  # creates mode 0600
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(body)
                Path(name).replace(self._path)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
