"""Asking a cluster who it is, whatever it answers; another process asks, which one answer could end."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import sys
import threading

from backend.settings import PROJECT_ROOT

PROGRAM = """
import sys
from backend.kafka.errors import KafkaCallFailed
from backend.kafka.topics import TopicAdmin
admin = TopicAdmin(sys.argv[1], {}, 5.0)
for _ in sys.stdin:
    try:
        print(admin.observe([]).facts, flush=True)
    except KafkaCallFailed as error:
        print(error.reason, flush=True)
"""
API_VERSIONS, METADATA = 18, 3
UNSUPPORTED_VERSION, INVALID_TOPIC = 35, 17


class Speaker(socketserver.BaseRequestHandler):
    """Speaks as much of Kafka's protocol as a client needs to be told of a cluster's brokers."""

    brokers: tuple[tuple[int, str, int], ...] = ()

    def handle(self) -> None:
        while head := self.request.recv(4, 4096):
            size = struct.unpack(">i", head.ljust(4, b"\0"))[0]
            request = b""
            while len(request) < size and (more := self.request.recv(size - len(request))):
                request += more
            api, version, correlation = struct.unpack(">hhi", request[:8])
            body = self.versions(version) if api == API_VERSIONS else self.metadata(request)
            answer = struct.pack(">i", correlation) + body
            self.request.sendall(struct.pack(">i", len(answer)) + answer)

    def versions(self, version: int) -> bytes:
        error = UNSUPPORTED_VERSION if version else 0
        ranges = [(API_VERSIONS, 0, 0), (METADATA, 4, 4)]
        return struct.pack(">hi", error, len(ranges)) + b"".join(struct.pack(">hhh", *each) for each in ranges)

    def metadata(self, request: bytes) -> bytes:
        """Version 4: throttle time, brokers, cluster id, controller, topics, which are those asked for."""
        (client,) = struct.unpack(">h", request[8:10])
        asked = request[10 + max(0, client) :]
        (count,) = struct.unpack(">i", asked[:4])
        topics, place = [], 4
        for _ in range(max(0, count)):
            (length,) = struct.unpack(">h", asked[place : place + 2])
            name = asked[place : place + 2 + length]
            topics.append(struct.pack(">h", INVALID_TOPIC) + name + struct.pack(">?i", False, 0))
            place += 2 + length
        brokers = b"".join(
            struct.pack(">ih", number, len(host)) + host.encode() + struct.pack(">ih", port, -1)
            for number, host, port in self.brokers
        )
        return (
            struct.pack(">ii", 0, len(self.brokers))
            + brokers
            + struct.pack(">h3si", 3, b"abc", self.brokers[0][0] if self.brokers else -1)
            + struct.pack(">i", len(topics))
            + b"".join(topics)
        )


def test_a_cluster_without_brokers_is_a_reason_and_no_end_of_the_process() -> None:
    class Handler(Speaker):
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        host, port = server.server_address[:2]
        Handler.brokers = ((7, str(host), int(port)),)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = [sys.executable, "-c", PROGRAM, f"{host}:{port}"]
        with subprocess.Popen(
            words, cwd=PROJECT_ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as asking:
            assert asking.stdin is not None
            assert asking.stdout is not None

            def asked() -> str:
                asking.stdin.write("again\n")
                asking.stdin.flush()
                return asking.stdout.readline().strip()

            assert asked() == "ClusterFacts(kafka_cluster_id='abc', brokers=(7,))"
            # As a cluster answers whose only broker is fenced for a moment.
            Handler.brokers = ()
            assert "brokers=" not in asked()
            Handler.brokers = ((7, str(host), int(port)),)
            assert asked() == "ClusterFacts(kafka_cluster_id='abc', brokers=(7,))"
            asking.stdin.close()
        server.shutdown()
    assert asking.returncode == 0
