"""One decoder process, seen from its parent: started, asked, watched, and killed.

A thread of its own starts the process and waits for its end: the kernel ends a child when the *thread* that
started it ends, and the threads that serve requests come and go.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from backend.messages import decoder_frames
from backend.messages.decoder_frames import Phase

CHILD = "backend.messages.decoder_child"
_ROOT = Path(__file__).resolve().parents[2]
_LOOK_SECONDS = 0.05
_START_SECONDS = 60.0
_SEND_SECONDS = 10.0
_END_SECONDS = 1.0
_GRACE_SECONDS = 0.25
"""Time after the deadline in which the process may still say how far it came."""
_SLOWER = 10
"""Factor between the processor time and the time that a record may take: the machine may have other work."""
_MOST_ANSWER_BYTES = 128 * 1024 * 1024
_STDERR_BYTES = 2_000


@dataclass(frozen=True)
class Limits:
    """Limits of a decoder process."""

    record_seconds: float = 1.0
    """Processor time for one record, or for an expression."""
    schema_seconds: float = 10.0
    """Time for reading one schema."""
    memory_bytes: int = 512 * 1024 * 1024
    """Address space."""
    idle_seconds: float = 300.0
    """Time without a request after which the process ends."""


class Answer(NamedTuple):
    """An answer: how many records of the request are done by now, whether it is the last, and its content."""

    done: int
    is_last: bool
    content: Any


class ProcessEnded(Exception):
    """The process has ended, or was killed, with a request unanswered: `phase` and `number` say at what."""

    def __init__(self, reason: str, phase: Phase, number: int) -> None:
        super().__init__(reason, phase, number)
        self.reason, self.phase, self.number = reason, phase, number


class TimeOver(Exception):
    """The deadline of a request has passed; `phase` and `number` say what the process was at, `took` how long."""

    def __init__(self, phase: Phase, number: int, took: float) -> None:
        super().__init__(phase, number, took)
        self.phase, self.number, self.took = phase, number, took


class StartFailed(Exception):
    """No decoder process can be started; the message says why."""


class DecoderProcess:
    """A decoder process. One thread at a time may use it."""

    def __init__(self, limits: Limits) -> None:
        """Start the process; it is ready when the first request is answered. Raises StartFailed."""
        self._limits = limits
        self.idle_since = time.monotonic()
        self.schemas: set[str] = set()
        """Digests of the schemas that the process has compiled."""
        self.schema_characters = 0
        self._is_ready = False
        self._buffer = bytearray()
        shared = os.memfd_create("treeline-decoder")
        try:
            os.ftruncate(shared, mmap.PAGESIZE)
            self._shared = mmap.mmap(shared, mmap.PAGESIZE)
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._keeper = _Keeper(limits, theirs, shared)
        finally:
            os.close(shared)

    @property
    def is_usable(self) -> bool:
        """Return whether a request can be sent: the process runs, is not about to end, and has memory left."""
        idle = time.monotonic() - self.idle_since
        if self._keeper.ended.is_set() or idle > self._limits.idle_seconds * 0.9:
            return False
        # What one request has left there, such as patterns, would be missing for the records of the next one.
        return _address_space(self._keeper.pid) < self._limits.memory_bytes // 3

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._keeper.pid

    def ask(self, request: bytes, deadline: float) -> Iterator[Answer]:
        """Send a request and yield its answers; the last one says so. `deadline`: on the monotonic clock.

        Raises ProcessEnded, TimeOver, StartFailed; after any of these, and if the answers are not taken to their
        end, the process is not to be used again.
        """
        if not self._is_ready:
            self._wait_until_ready(deadline)
        try:
            self._socket.settimeout(min(_SEND_SECONDS, max(_LOOK_SECONDS, deadline - time.monotonic())))
            self._socket.sendall(request)
        except TimeoutError:
            if time.monotonic() >= deadline:
                raise self._out_of_time(None) from None
            raise self._killed("It takes no requests.", self._work()) from None
        except OSError:
            raise self._gone() from None
        watch = _Watch(self._limits, self._keeper.pid)
        while True:
            answer = self._receive(deadline + _GRACE_SECONDS, watch)
            yield answer
            if answer.is_last:
                self.idle_since = time.monotonic()
                return

    def nonsense(self) -> ProcessEnded:
        """End the process, as its answers make no sense; return an error that blames no record."""
        return self._killed("It wrote nonsense.", (Phase.WAITING, 0))

    def kill(self) -> None:
        """End the process."""
        self._keeper.kill()
        self._socket.close()

    def _wait_until_ready(self, deadline: float) -> None:
        try:
            self._receive(min(deadline, time.monotonic() + _START_SECONDS), None)
        except ProcessEnded:
            self._keeper.ended.wait(_SEND_SECONDS)
            raise StartFailed(self._keeper.last_words()) from None
        self._is_ready = True

    def _receive(self, deadline: float, watch: _Watch | None) -> Answer:
        size = decoder_frames.ANSWER.size
        self._fill(size, deadline, watch)
        done, is_last, length = decoder_frames.ANSWER.unpack_from(self._buffer)
        if is_last > 1 or length > _MOST_ANSWER_BYTES:
            raise self.nonsense()
        self._fill(size + length, deadline, watch)
        data = bytes(memoryview(self._buffer)[size : size + length])
        del self._buffer[: size + length]
        try:
            return Answer(done, bool(is_last), json.loads(data))
        except (ValueError, RecursionError):
            raise self.nonsense() from None

    def _fill(self, length: int, deadline: float, watch: _Watch | None) -> None:
        """Read until the buffer has this many bytes."""
        self._socket.settimeout(_LOOK_SECONDS)
        while len(self._buffer) < length:
            try:
                data = self._socket.recv(262_144)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise self._out_of_time(watch) from None
                work = self._work()
                if watch is not None and (reason := watch.reason_to_kill(work)):
                    raise self._killed(reason, work) from None
                continue
            except OSError:
                raise self._gone() from None
            if not data:
                raise self._gone()
            self._buffer += data

    def _work(self) -> tuple[Phase, int]:
        phase, number = decoder_frames.SHARED.unpack_from(self._shared)
        return (Phase(phase) if phase in set(Phase) else Phase.WAITING), number

    def _out_of_time(self, watch: _Watch | None) -> TimeOver:
        phase, number = self._work()
        self.kill()
        return TimeOver(phase, number, 0.0 if watch is None else watch.seconds_at((phase, number)))

    def _killed(self, reason: str, work: tuple[Phase, int]) -> ProcessEnded:
        self.kill()
        self._keeper.ended.wait(_SEND_SECONDS)
        # If it has gone on in the meantime, that work was slow, but is done: none is to blame.
        return ProcessEnded(reason, *(work if self._work() == work else (Phase.WAITING, 0)))

    def _gone(self) -> ProcessEnded:
        self._keeper.ended.wait(_END_SECONDS)  # the cause is not to be this process
        self.kill()
        self._keeper.ended.wait(_SEND_SECONDS)
        return ProcessEnded(f"It ended the decoder process ({self._keeper.how_it_ended()}).", *self._work())


class _Watch:
    """Notices that a process stays at one piece of work for too long."""

    def __init__(self, limits: Limits, pid: int) -> None:
        self._limits, self._pid = limits, pid
        self._work: tuple[Phase, int] | None = None
        self._since = self._processor_since = 0.0

    def seconds_at(self, work: tuple[Phase, int]) -> float:
        """Return for how long the process has been at a piece of work, at least."""
        return time.monotonic() - self._since if work == self._work else 0.0

    def reason_to_kill(self, work: tuple[Phase, int]) -> str | None:
        now, processor = time.monotonic(), _processor_seconds(self._pid)
        if work != self._work:
            self._work, self._since, self._processor_since = work, now, processor
            return None
        phase, (took, computed) = work[0], (now - self._since, processor - self._processor_since)
        if phase is Phase.SCHEMA:
            # Its compiler is a process of its own, so the time is what counts.
            limit = self._limits.schema_seconds
            return f"It takes longer than {limit:g} s to read." if took > limit else None
        limit = self._limits.record_seconds
        if computed > limit or took > limit * _SLOWER:
            return f"It takes longer than {limit:g} s to decode and filter."
        return None


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process; 0 if it has ended."""
    try:
        return time.clock_gettime(
            ~pid << 3 | 2
        )  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), linux/posix-timers.h
    except OSError:
        return 0.0


def _address_space(pid: int) -> int:
    """Return the bytes of a process's address space; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * mmap.PAGESIZE
    except (OSError, IndexError):
        return 0


class _Keeper:
    """The thread that starts a process and waits for its end."""

    def __init__(self, limits: Limits, connection: socket.socket, shared: int) -> None:
        self.ended = threading.Event()
        self.pid = 0
        self._said = b""
        self._code: int | None = None
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._folder = Path(tempfile.gettempdir(), f"treeline-decoder-{secrets.token_hex(8)}")
        self._handle = -1
        self._lock = threading.Lock()
        given = map(str, (os.getpid(), shared, limits.memory_bytes, limits.idle_seconds))
        command = (sys.executable, "-P", "-s", "-m", CHILD, *given)
        thread = threading.Thread(
            target=self._keep, args=(command, connection, shared), name="decoder", daemon=True
        )
        thread.start()
        self._started.wait()
        if self._failure is not None:
            raise StartFailed(f"No decoder process can be started: {self._failure.strerror}.")

    def kill(self) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def how_it_ended(self) -> str:
        if self._code is None:
            return "it was killed"
        return signal.Signals(-self._code).name if self._code < 0 else f"exit code {self._code}"

    def last_words(self) -> str:
        """Return why a process ended that has seen no record yet: later errors might quote one."""
        said = self._said.decode(errors="replace").strip().splitlines()
        return f"The decoder process does not start: {said[-1] if said else self.how_it_ended()}"

    def _keep(self, command: Sequence[str], connection: socket.socket, shared: int) -> None:
        try:
            process = subprocess.Popen(
                command,
                stdin=connection.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[shared],
                cwd="/",
                env=_environment(self._folder),
                start_new_session=True,
            )
            self.pid = process.pid
            self._handle = os.pidfd_open(process.pid)
        except OSError as error:
            self._failure = error
            return
        finally:
            self._started.set()
        self._code = process.wait()
        with self._lock:
            os.close(self._handle)
            self._handle = -1
        if process.stderr is not None:
            with process.stderr as errors:
                os.set_blocking(errors.fileno(), False)
                self._said = errors.read(_STDERR_BYTES) or b""
        # The compiler of Protobuf schemas leaves its files if it is killed.
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ended.set()


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a decoder process: nothing of this process's, which may hold secrets."""
    programs = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": programs, "PYTHONPATH": str(_ROOT), "LANG": "C.UTF-8", "TMPDIR": str(folder)}
