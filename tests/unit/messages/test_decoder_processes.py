"""Lives of decoder processes: what they have of their parent, when they end, and how threads share them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.messages import decoder_process
from backend.messages.decoders import (
    Decoders,
    DecodersUnavailable,
    DecodingEnded,
    ExpressionInvalid,
    Limits,
    Parts,
    SchemaText,
)
from backend.settings import PROJECT_ROOT
from tests.unit.messages.encoded import with_indexes
from tests.unit.messages.test_decoder_bombs import process_id

LONG_SECONDS = 120.0
PROTOBUF = SchemaText("PROTOBUF", 'syntax = "proto3"; message M { string s = 1; }', {})


def decode(decoders: Decoders, data: bytes = b"a", seconds: float = LONG_SECONDS):
    return decoders.decode([Parts(None, data)], {1: PROTOBUF}.get, None, seconds)[0][1].value


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def decoders():
    made = Decoders(most=1)
    yield made
    made.close()


def test_a_process_has_nothing_of_its_parent_and_opens_nothing(decoders, monkeypatch):
    monkeypatch.setenv("TREELINE_SECRET", "very-secret")
    decode(decoders)
    decode(decoders, with_indexes(1, b""))
    pid = process_id(decoders)
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"secret" not in environment
    assert {each.partition(b"=")[0] for each in environment.split(b"\0") if each} == {
        b"PATH",
        b"PYTHONPATH",
        b"LANG",
        b"TMPDIR",
    }
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2", "3"]
    assert "memfd:treeline-decoder" in os.readlink(f"/proc/{pid}/fd/3")
    assert resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == 3
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (512 * 1024 * 1024,) * 2
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/task").is_dir() and len(os.listdir(f"/proc/{pid}/task")) == 1


def test_an_invalid_expression_ends_no_process(decoders):
    decode(decoders)
    pid = process_id(decoders)
    with pytest.raises(ExpressionInvalid):
        decoders.check("$.a =")
    assert process_id(decoders) == pid
    with pytest.raises(ExpressionInvalid):
        decoders.decode([Parts(None, b"{}")], {}.get, "$.a =", LONG_SECONDS)
    decode(decoders)
    assert process_id(decoders) == pid and is_running(pid)


def folder_of(pid: int) -> Path:
    """Return the folder of a process's temporary files."""
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    (folder,) = (each.removeprefix("TMPDIR=") for each in variables if each.startswith("TMPDIR="))
    return Path(folder)


def test_no_files_are_left_of_reading_a_schema(decoders):
    for text in ('syntax = "proto3"; message M { string s = 1; }', "no schema"):
        known = {1: SchemaText("PROTOBUF", text, {})}
        decoders.decode([Parts(None, with_indexes(1, b""))], known.get, None, LONG_SECONDS)
    folder = folder_of(process_id(decoders))
    assert folder.parent == Path(tempfile.gettempdir()) and not folder.exists()


def test_closed_decoders_leave_no_process(decoders):
    decode(decoders)
    pid = process_id(decoders)
    decoders.close()
    wait_until(lambda: not is_running(pid))
    with pytest.raises(DecodersUnavailable, match="closed"):
        decode(decoders)
    with pytest.raises(DecodersUnavailable, match="closed"):
        decoders.check("$")
    decoders.close()


def test_a_process_without_work_ends_and_another_one_takes_its_place():
    decoders = Decoders(most=1, limits=Limits(idle_seconds=0.5))
    decode(decoders)
    pid = process_id(decoders)
    wait_until(lambda: not is_running(pid))
    assert decode(decoders) == "a"
    assert process_id(decoders) != pid
    decoders.close()


def test_a_process_that_was_killed_while_it_was_free_is_replaced(decoders):
    for number in (signal.SIGKILL, signal.SIGTERM):
        decode(decoders)
        os.kill(process_id(decoders), number)
        assert decode(decoders) == "a"


def test_a_process_outlives_the_thread_that_needed_it_first(decoders):
    thread = threading.Thread(target=decode, args=(decoders,))
    thread.start()
    thread.join()
    pid = process_id(decoders)
    for _ in range(20):
        assert decode(decoders) == "a"
        time.sleep(0.01)
    assert process_id(decoders) == pid


def test_twenty_threads_share_two_processes(monkeypatch):
    made: list[decoder_process.DecoderProcess] = []
    start = decoder_process.DecoderProcess.__init__

    def counted(self, limits):
        made.append(self)
        start(self, limits)

    monkeypatch.setattr(decoder_process.DecoderProcess, "__init__", counted)
    decoders = Decoders(most=2)

    def work(number: int) -> bool:
        records = [Parts(b"%d" % number, b'{"n": %d}' % n) for n in range(3_000)]
        for _ in range(3):
            found = decoders.decode(records, lambda _: None, f"$.n >= {number * 100}", LONG_SECONDS)
            assert [n for n, each in enumerate(found) if each is not None] == list(range(number * 100, 3_000))
            assert {each[0].value for each in found if each is not None} == {str(number)}
        decoders.check("$.a")
        return True

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(work, range(20)))
    assert len(made) == 2
    decoders.close()


def test_a_process_cannot_open_files_or_connections(monkeypatch):
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.bad_child")
    decoders = Decoders(most=1)
    assert decode(decoders, b"fault:open") == "fault:open"
    decoders.close()


def test_processes_that_end_leave_no_open_files(monkeypatch):
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.bad_child")
    decoders = Decoders(most=1)
    decode(decoders, b"fault:crash")
    wait_until(lambda: not decoder_threads())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(4):
        decode(decoders, b"fault:crash")
    wait_until(lambda: not decoder_threads())
    assert len(os.listdir("/proc/self/fd")) == before
    decoders.close()


def decoder_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "decoder"]


def test_threads_share_processes_that_crash(monkeypatch):
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.bad_child")
    decoders = Decoders(most=2, limits=Limits(record_seconds=0.3))

    def work(number: int) -> bool:
        records = [Parts(None, b"%d" % number), Parts(None, b"fault:crash"), Parts(None, b"last %d" % number)]
        found = decoders.decode(records, lambda _: None, None, LONG_SECONDS)
        assert [found[0][1].value, found[2][1].value] == [str(number), f"last {number}"]
        return "SIGSEGV" in found[1][1].problem

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(work, range(10)))
    decoders.close()


def run_out_of_time(decoders: Decoders) -> None:
    with pytest.raises(DecodingEnded):
        decode(decoders, b"fault:sleep", 2.0)


def test_all_who_wait_get_their_turn(monkeypatch):
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.bad_child")
    decoders = Decoders(most=1, limits=Limits(record_seconds=600.0))
    decode(decoders)
    busy = threading.Thread(target=run_out_of_time, args=(decoders,))
    busy.start()
    wait_until(lambda: not decoders._pool._free)
    order: list[int] = []
    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=lambda number=number: (decode(decoders), order.append(number))))
        threads[-1].start()
        wait_until(lambda number=number: len(decoders._pool._waiting) > number)
    with pytest.raises(DecodingEnded) as caught:
        decode(decoders, seconds=0.1)
    assert caught.value.done == 0
    for thread in (busy, *threads):
        thread.join()
    assert sorted(order) == list(range(5))
    decoders.close()


PARENT = """
import sys, threading
from backend.messages import decoder_process
from backend.messages.decoders import Decoders, Limits, Parts, SchemaText
decoder_process.CHILD = "tests.unit.messages.bad_child"
decoders = Decoders(most=1, limits=Limits(record_seconds=600, schema_seconds=600))
decoders.decode([Parts(None, b"a")], lambda _: None, None, 600)
print(decoders._pool._free[-1].pid, flush=True)
if sys.argv[1] == "idle":
    threading.Event().wait()
schema = SchemaText("PROTOBUF", "fault:sleep", {}) if sys.argv[1] == "schema" else None
data = b"\\0\\0\\0\\0\\1x" if schema else b"fault:spin"
decoders.decode([Parts(None, data)], lambda _: schema, None, 600)
"""


@pytest.mark.parametrize("work", ["idle", "record", "schema"])
def test_no_process_outlives_a_parent_that_is_killed(work):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, work],
        stdout=subprocess.PIPE,
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
    ) as parent:
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        if work == "record":
            wait_until(lambda: decoder_process._processor_seconds(pid) > 0.5)
        parent.kill()
    wait_until(lambda: not is_running(pid))


def test_the_compiler_of_schemas_ends_with_a_process_that_is_killed(monkeypatch, tmp_path):
    compiler = tmp_path / "protoc"
    compiler.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(decoder_process, "CHILD", "tests.unit.messages.other_compiler")
    monkeypatch.setattr(
        decoder_process,
        "_environment",
        lambda folder: {**environment(folder), "TREELINE_TEST_COMPILER": str(compiler)},
    )
    decoders = Decoders(most=1, limits=Limits(schema_seconds=1.0))
    decode(decoders)
    folder = folder_of(process_id(decoders))
    found = decoders.decode([Parts(None, with_indexes(1, b""))], {1: PROTOBUF}.get, None, LONG_SECONDS)
    assert found[0][1].problem == "Schema 1 cannot be used. It takes longer than 1 s to read."
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid) and not folder.exists())
    decoders.close()


environment = decoder_process._environment
