"""One HTTP request to a receiver that a user has named: the only place that calls such an address.

Each address that the name resolves to is checked before a connection, and the checked address is the one that is
connected to: between a check and a second look-up a name can be changed. Redirects are not followed, proxies of
the environment are not used, and only the status of the answer is read: a receiver gets events, and tells nothing.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing

from backend.domain.base.errors import ValueInvalid
from backend.domain.webhooks.addresses import Network, Receiver, parse_receiver, refusal


class DeliveryFailed(Exception):
    """The receiver did not accept the delivery; `status` if it answered at all."""

    def __init__(self, problem: str, status: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.status = problem, status


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, allowed: Sequence[Network], timeout_seconds: float
) -> int:
    """Return the status of a receiver that accepted the delivery, 2xx. Raises DeliveryFailed."""
    try:
        who = parse_receiver(url)
    except ValueInvalid as error:
        raise DeliveryFailed(f"its address {error.detail}") from error
    deadline = time.monotonic() + timeout_seconds
    try:
        plain = _connect(who, allowed, deadline)
        with closing(plain), _Deadline(plain, deadline):
            status = _send_request(plain, who, headers, body)
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        if time.monotonic() >= deadline:
            raise DeliveryFailed(f"the receiver did not answer within {timeout_seconds:g} s") from error
        raise DeliveryFailed(_reason(error)) from error
    if 200 <= status < 300:
        return status
    if 300 <= status < 400:
        raise DeliveryFailed(f"it answered {status}, and redirects are not followed", status)
    raise DeliveryFailed(f"it answered {status}", status)


def _send_request(plain: socket.socket, who: Receiver, headers: Mapping[str, str], body: bytes) -> int:
    # With its port: without one, the last group of an IPv6 address would be read as the port.
    connection = http.client.HTTPConnection(who.host, who.port)
    connection.sock = (
        ssl.create_default_context().wrap_socket(plain, server_hostname=who.host)
        if who.scheme == "https"
        else plain
    )
    with closing(connection):
        connection.request("POST", who.target, body, {"Host": who.authority, **headers, "Connection": "close"})
        return connection.getresponse().status


def _connect(who: Receiver, allowed: Sequence[Network], deadline: float) -> socket.socket:
    addresses = _resolve(who, deadline)
    for address in addresses:
        # All addresses: a forbidden one among others is an attempt to reach it by chance.
        refused = refusal(ipaddress.ip_address(address.partition("%")[0]), allowed)
        if refused is not None:
            raise DeliveryFailed(f"the address is not allowed: {refused}")
    last: OSError = OSError(f"{who.host} has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, who.port), timeout=max(0.001, deadline - time.monotonic()))
        except OSError as error:
            last = error
    raise last


def _resolve(who: Receiver, deadline: float) -> list[str]:
    """Resolve a name. Raises OSError, TimeoutError at the deadline: resolvers keep no deadline of ours."""
    found: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            rows = socket.getaddrinfo(who.host, who.port, type=socket.SOCK_STREAM)
            found.set_result(list(dict.fromkeys(str(each[4][0]) for each in rows)))
        except (OSError, UnicodeError) as error:
            found.set_exception(error)

    # A daemon thread: it cannot be ended, and nothing waits for it.
    threading.Thread(target=look_up, name="webhook-look-up", daemon=True).start()
    return found.result(max(0.0, deadline - time.monotonic()))


class _Deadline:
    """Ends a connection at the deadline: a socket's own timeout restarts with each byte that arrives."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection.dup()
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._end)
        self._timer.daemon = True

    def _end(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is over already

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._connection.close()


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    if isinstance(error, ssl.SSLError):
        return f"no secure connection: {error.reason or error}"
    if isinstance(error, OSError):
        return f"it cannot be reached: {error.strerror or error or type(error).__name__}"
    return f"its answer is no HTTP: {type(error).__name__}"
