"""Requests of Kafka's protocol that librdkafka lacks or implements poorly, over kafka-python's connections.

Decision 26 says why kafka-python. The cluster's properties are librdkafka's, as everywhere; they are translated
here, after `references.resolved` has put secrets and the contents of files in place.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import ssl
import time
from collections.abc import Mapping
from typing import Any

from kafka.errors import IncompatibleBrokerVersion, KafkaError, RequestTimedOutError, for_code
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest

from backend.kafka.base.client_config import refuse_destinations
from backend.kafka.base.errors import KafkaCallFailed, LoginUnsupported
from backend.kafka.base.references import resolved

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_BROKERS_AT_ONCE = 50
"""Brokers that are queried concurrently: each answers with all that it holds, many megabytes on a large
cluster."""
_SERVER_SECONDS = 3.0
"""Time for a bootstrap server's first attempt, unless it is the only one; doubled with every round."""
_CONNECT_SECONDS = 10.0
_AGAIN_SECONDS = 0.1
"""Pause between two rounds of all bootstrap servers; doubled each time, up to a second."""

# kafka-python logs its configuration, including secrets, and each failure that its exceptions report as well.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class ProtocolClient:
    """Connections to one cluster, opened by the first request and kept. Not thread-safe."""

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str], timeout_seconds: float) -> None:
        """Create the client without connecting.

        Raises LoginUnsupported if the properties require what kafka-python does not have, KafkaCallFailed if their
        certificates cannot be used.
        """
        known = resolved(properties, bootstrap_servers)
        refuse_destinations(bootstrap_servers, known)
        self._servers = bootstrap_servers.split(",")
        self._timeout_ms = int(1000 * timeout_seconds)
        self._config = {
            "request_timeout_ms": self._timeout_ms,
            # A hanging broker accepts connections and stays silent: leave time for another one.
            "socket_connection_setup_timeout_ms": int(min(1000 * _CONNECT_SECONDS, self._timeout_ms / 3)),
            "reconnect_backoff_max_ms": 1000,
            # Answers of thousands of principals are larger than its default of 1 MB.
            "receive_message_max_bytes": 100_000_000,
            **login(known),
        }
        self._loop: NetworkSelector | None = None
        self._connections: KafkaConnectionManager | None = None
        self._same: int | None = None

    def send(self, request: ApiMessage) -> Any:
        """Return any broker's answer to a request. Raises KafkaCallFailed, with Kafka's code if there is one."""
        try:
            connections = self._opened()
            return connections.run(connections.send, request)
        except KafkaError as error:
            self.close()
            raise _failed(error) from error

    def ask_same(self, request: ApiMessage) -> Any:
        """Send a request to the same broker as before, as long as it is up.

        Brokers apply metadata one after the other: the answers of a single broker never go back in time, those of
        different brokers may. Raises KafkaCallFailed; the next request then goes to another broker.
        """
        try:
            connections = self._opened()
            if self._same not in {broker.node_id for broker in connections.cluster.brokers()}:
                self._same = connections.least_loaded_node()
            return connections.run(connections.send, request, self._same)
        except KafkaError as error:
            self._same = None
            self.close()
            raise _failed(error) from error

    def send_each(self, requests: Mapping[int, ApiMessage]) -> dict[int, Any | KafkaCallFailed]:
        """Send each broker its own request, concurrently; return each answer, or why there is none.

        Raises KafkaCallFailed if no broker answers at all.
        """
        if not requests:
            return {}
        try:
            connections = self._opened()
            found: dict[int, Any | KafkaCallFailed] = connections.run(self._gather, connections, requests)
        except KafkaError as error:
            self.close()
            raise _failed(error) from error
        return found

    async def _gather(
        self, connections: KafkaConnectionManager, requests: Mapping[int, ApiMessage]
    ) -> dict[int, Any | KafkaCallFailed]:
        # The manager knows only brokers from its last metadata, minutes ago, and refuses to contact others.
        await connections.cluster.refresh_metadata()
        found: dict[int, Any | KafkaCallFailed] = {}
        brokers = sorted(requests)
        for first in range(0, len(brokers), _BROKERS_AT_ONCE):
            waiting = {}
            for broker in brokers[first : first + _BROKERS_AT_ONCE]:
                try:
                    waiting[broker] = connections.send(requests[broker], broker)
                except KafkaError as error:
                    found[broker] = _failed(error)
            for broker, answer in waiting.items():
                try:
                    # A timeout here as well: a connection that is never established has none for its request.
                    found[broker] = await connections.wait_for(answer, self._timeout_ms)
                except KafkaError as error:
                    found[broker] = _failed(error)
        return found

    def cluster_id(self) -> str:
        """Return the Kafka cluster's own id. Raises KafkaCallFailed."""
        return str(self.send(MetadataRequest(topics=[])).cluster_id)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        loop, connections = self._loop, self._connections
        self._loop = self._connections = None
        if loop is not None and connections is not None:
            connections.close()
            loop.close()

    def _opened(self) -> KafkaConnectionManager:
        if self._connections is None:
            self._connections = self._bootstrapped()
        return self._connections

    def _bootstrapped(self) -> KafkaConnectionManager:
        """Return connections that know the brokers, from the first bootstrap server that answers.

        kafka-python spends the whole timeout on the server that it happens to try first. A hanging broker would
        use it up, and a cluster with healthy ones would seem to be down: here each gets a share of the time.
        """
        deadline = time.monotonic() + self._timeout_ms / 1000
        servers = random.sample(self._servers, len(self._servers))
        for turn in itertools.count():
            rounds, at = divmod(turn, len(servers))
            left = deadline - time.monotonic()
            share = left if len(servers) == 1 else min(_SERVER_SECONDS * 2**rounds, left / 2)
            try:
                return self._bootstrapped_from(servers[at], max(1, int(1000 * share)))
            except IncompatibleBrokerVersion:
                self.close()
                raise
            except KafkaError as error:
                self.close()
                left = deadline - time.monotonic()
                if left < _AGAIN_SECONDS:
                    raise _nobody(self._servers, error) from error
                if at == len(servers) - 1:
                    time.sleep(min(_AGAIN_SECONDS * 2**rounds, 1.0, left - _AGAIN_SECONDS / 2))
        raise AssertionError("the counter never ends")

    def _bootstrapped_from(self, server: str, timeout_ms: int) -> KafkaConnectionManager:
        self._loop = NetworkSelector(**self._config)
        connections = self._connections = KafkaConnectionManager(
            self._loop, bootstrap_servers=[server], **self._config
        )
        self._loop.start()
        connections.run(_hear, connections, timeout_ms)
        return connections


async def _hear(connections: KafkaConnectionManager, timeout_ms: int) -> None:
    # A timeout here as well: kafka-python's own covers the connection only, not the answer.
    await connections.wait_for(connections.call_soon(_bootstrap, connections, timeout_ms), timeout_ms)


async def _bootstrap(connections: KafkaConnectionManager, timeout_ms: int) -> None:
    (server,) = connections.cluster.bootstrap_brokers()
    # Fails at once where no process listens; kafka-python would retry the same server until its time is over.
    await connections.get_connection(
        server.node_id,
        timeout_ms=timeout_ms,
        pop_on_close=False,
        refresh_metadata_on_err=False,
        reset_backoff_on_connect=False,
    )
    await connections.bootstrap_async(timeout_ms)


def _nobody(servers: list[str], error: KafkaError) -> KafkaCallFailed:
    return KafkaCallFailed(f"no broker answers at {', '.join(servers)}: {error}")


def _failed(error: KafkaError) -> KafkaCallFailed:
    # kafka-python reports its own timeout with a class that has a broker's code; no broker has refused anything.
    is_refusal = not isinstance(error, RequestTimedOutError)
    return KafkaCallFailed(str(error), getattr(error, "errno", None) if is_refusal else None)


def refusal(result: Any) -> KafkaCallFailed:
    """Return the failure in an answer's `error_code` and `error_message`."""
    kind = for_code(result.error_code)
    return KafkaCallFailed(result.error_message or kind.description or kind.__name__, result.error_code)


def login(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return kafka-python's settings for the security part of librdkafka's (resolved) properties.

    Raises LoginUnsupported naming the property that has no counterpart.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    settings: dict[str, Any] = {"security_protocol": protocol}
    if "client.id" in properties:
        settings["client_id"] = properties["client.id"]
    if protocol.startswith("SASL"):
        mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "GSSAPI")
        if mechanism not in _MECHANISMS:
            raise LoginUnsupported(
                f"the control plane logs in by {mechanism}, and can do this only by {', '.join(_MECHANISMS)}"
            )
        settings["sasl_mechanism"] = mechanism
        settings["sasl_plain_username"] = properties.get("sasl.username", "")
        settings["sasl_plain_password"] = properties.get("sasl.password", "")
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _tls(properties)
    return settings


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    endpoint = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = endpoint == "https"
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        _authorities(context, properties)
        _certificate(context, properties)
        if "ssl.cipher.suites" in properties:
            context.set_ciphers(properties["ssl.cipher.suites"])
    except (ssl.SSLError, OSError) as error:
        raise KafkaCallFailed(f"the certificates of its properties cannot be used: {error}") from error
    return context


def _authorities(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    if pem := properties.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=pem)
    else:
        context.load_default_certs()


def _certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    # Without a password OpenSSL would prompt on the terminal.
    password = properties.get("ssl.key.password", "")
    pems = [properties[name] for name in ("ssl.certificate.pem", "ssl.key.pem") if name in properties]
    if not pems:
        return
    # The library reads only files; this one exists in memory only.
    file = os.memfd_create("certificate")
    try:
        os.write(file, "\n".join(pems).encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", None, password)
    finally:
        os.close(file)
