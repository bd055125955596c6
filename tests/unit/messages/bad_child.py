"""A decoder process with faults: values, schemas and expressions that begin with `fault:` make it do bad things.

python -m tests.unit.messages.bad_child PARENT SHARED MEMORY IDLE
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time

from backend.messages import decoder_child
from backend.messages.decoding.schemas import decoder


def fault(name: str) -> None:
    match name:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "spin":
            while True:
                pass
        case "sleep":
            time.sleep(600)
        case "memory":
            raise MemoryError
        case "garbage":
            os.write(0, b"\xff" * 10_000)
        case "nonsense":
            send(0, 1, b'[[0, ["avro"], 17]]')
        case "other":
            send(0, 1, b'[[77, ["text", null, null], ["text", null, null]]]')
        case "too-many":
            send(1_000_000, 1, b"[]")
        case "deep":
            send(0, 1, b"[" * 1_000_000)
        case "endless":
            send(0, 0, b"[]")
            time.sleep(600)
        case "open":
            for open_it in (lambda: os.open("/etc/hostname", os.O_RDONLY), socket.socket):
                with contextlib.suppress(OSError):
                    open_it()
                    os._exit(7)
        case "close":
            os.close(0)
            time.sleep(600)


def send(done: int, is_last: int, text: bytes) -> None:
    os.set_blocking(0, True)
    os.write(0, b"".join(each.to_bytes(4, "little") for each in (done, is_last, len(text))))
    view = memoryview(text)
    while view:
        view = view[os.write(0, view) :]


def faulty(call):
    def called(*arguments):
        for each in arguments:
            text = each.decode(errors="replace") if isinstance(each, bytes) else each
            if isinstance(text, str) and text.startswith("fault:"):
                fault(text.removeprefix("fault:"))
        return call(*arguments)

    return called


if __name__ == "__main__":
    decoder_child.decoded = faulty(decoder_child.decoded)
    decoder_child.decoder = faulty(decoder)
    decoder_child._compiled = faulty(decoder_child._compiled)
    if os.path.exists(f"/proc/{sys.argv[1]}"):
        decoder_child.main()
