"""Zones as network namespaces, joined by a router in a namespace of its own.

Namespaces have no name: they are open files of this process. The kernel removes them, with their links, when this
process and those within them have ended, however that happens. So concurrent runs share nothing.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka.three_brokers import Site

ROUTER = "router"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h
_LIBC = ctypes.CDLL(None, use_errno=True)
_MINE = Path("/proc/thread-self/ns/net")


class NoNamespaces(RuntimeError):
    """The machine lacks a requirement of network namespaces."""


class Namespaces:
    """A subnet for each zone, and links to the router, the only path between them; links are down at first."""

    def __init__(self, zones: Sequence[str]) -> None:
        """Create the namespaces. Raises NoNamespaces."""
        self.zones = tuple(zones)
        self._files: dict[str, int] = {}
        self._home = os.open(_MINE, os.O_RDONLY)
        try:
            for name in (ROUTER, *zones):
                self._files[name] = self._made()
                self._ip(name, "link set lo up")
            self._forward()
            for zone in zones:
                self._join(zone)
        except BaseException:
            self.close()
            raise

    def _made(self) -> int:
        if _LIBC.unshare(_NEW_NETWORK):
            why = os.strerror(ctypes.get_errno())
            raise NoNamespaces(f"a network namespace cannot be made ({why}): run as root, with CAP_SYS_ADMIN")
        try:
            return os.open(_MINE, os.O_RDONLY)
        finally:
            self._enter(self._home)

    def _forward(self) -> None:
        try:
            with self.within(ROUTER):
                Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        except OSError as error:
            raise NoNamespaces(f"the router may not forward: /proc/sys is not writable here ({error})") from error

    def _join(self, zone: str) -> None:
        """Create the router's link to a zone, which is named after the zone."""
        peer = f"/proc/{os.getpid()}/fd/{self._files[ROUTER]}"
        self._ip(zone, f"link add eth0 type veth peer name {zone} netns {peer}")
        self._ip(ROUTER, f"address add {self.host(zone, 254)}/24 dev {zone}")
        self._ip(zone, f"address add {self.host(zone)}/24 dev eth0")
        self._ip(zone, "link set eth0 up")
        self._ip(zone, f"route add default via {self.host(zone, 254)}")

    def connect(self) -> None:
        """Bring the links up. Raises NoNamespaces."""
        for zone in self.zones:
            self._ip(ROUTER, f"link set {zone} up")

    def _ip(self, name: str, words: str) -> None:
        with self.within(name):
            try:
                done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
            except FileNotFoundError as error:
                raise NoNamespaces("the program ip is missing: install iproute2") from error
        if done.returncode:
            raise NoNamespaces(f"ip {words}: {done.stderr.strip()}; it needs CAP_NET_ADMIN and the kernel's veth")

    def host(self, zone: str, number: int = 1) -> str:
        """Return the address of a zone's host; 254 is the router's."""
        return f"10.77.{self.zones.index(zone) + 1}.{number}"

    def site(self, zone: str) -> Site:
        return Site(self.host(zone), lambda: self.within(zone))

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Move this thread into a namespace.

        Processes and threads started meanwhile stay there: a client's threads remain where it was created, even
        when it is used from elsewhere.
        """
        before = os.open(_MINE, os.O_RDONLY)
        try:
            self._enter(self._files[name])
            yield
        finally:
            self._enter(before)
            os.close(before)

    @staticmethod
    def _enter(file: int) -> None:
        if _LIBC.setns(file, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")

    def close(self) -> None:
        for file in (*self._files.values(), self._home):
            os.close(file)
        self._files = {}
