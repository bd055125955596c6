"""`python -m workers.zone_router --file FILE --node NAME`: one node of the zone router, until it is ended."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from pathlib import Path

import uvloop
from prometheus_client import CollectorRegistry, start_http_server

from backend import logs
from workers.zone_router.document import RouterFile, RouterFileInvalid, read_router_file
from workers.zone_router.main.confirm_wal import WalFenced
from workers.zone_router.node import RouterNode
from workers.zone_router.object_storage import StorageFailed
from workers.zone_router.proxy.succession import ChannelFenced
from workers.zone_router.traffic import Traffic


async def _serve(file: RouterFile, name: str) -> None:
    described, registry = file.node(name), CollectorRegistry()
    node = RouterNode(file, name, Traffic(name, described.zone, registry))
    ended, ready = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    running = asyncio.create_task(node.run(ended, ready))
    await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    # What there is now stays. Of what comes and goes with each request nearly nothing is in a cycle: to look for
    # cycles as often as Python does by itself took a twentieth of a proxy's time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    # Last: it is the sign of readiness.
    metrics = start_http_server(described.metrics, described.bound_to, registry) if described.metrics else None
    try:
        await running
    finally:
        if metrics:
            metrics[0].shutdown()


def main() -> int:
    """Exit code 2 for a file that cannot be followed; 1 for a port that another program has, for storage that
    cannot be used, and where another process has taken this node's place.
    """
    parser = argparse.ArgumentParser(prog="python -m workers.zone_router", description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="the zone router's file")
    parser.add_argument("--node", required=True, help="which of its nodes this is")
    given = parser.parse_args()
    logs.configure()
    try:
        file = read_router_file(given.file)
        uvloop.run(_serve(file, given.node))
    except RouterFileInvalid as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except (ChannelFenced, WalFenced, StorageFailed) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        print(f"cannot listen: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
