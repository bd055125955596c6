"""`python -m workers.zone_router --file FILE --node NAME`: run one node of the zone router."""

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
from workers.zone_router.main.confirm_wal import WalFenced
from workers.zone_router.node import RouterNode
from workers.zone_router.object_storage import StorageFailed
from workers.zone_router.proxy.succession import ChannelFenced
from workers.zone_router.router_file import RouterFile, RouterFileInvalid, read_router_file
from workers.zone_router.traffic import Traffic


async def _serve(file: RouterFile, name: str) -> None:
    described, registry = file.node(name), CollectorRegistry()
    node = RouterNode(file, name, Traffic(name, described.zone, registry))
    ended, ready = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    running = asyncio.create_task(node.run(ended, ready))
    await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    # Objects that exist now stay. Those of single requests are almost never in reference cycles; collecting as
    # often as Python's default took 5 % of a proxy's time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    # Last, as the metrics port signals readiness.
    metrics = start_http_server(described.metrics, described.bound_to, registry) if described.metrics else None
    try:
        await running
    finally:
        if metrics:
            metrics[0].shutdown()


def main() -> int:
    """Run a node; return exit code 0, 1 or 2.

    Exit code 2: the file is invalid. Exit code 1: a port is in use, object storage cannot be used, or another
    process has taken over as this node.
    """
    parser = argparse.ArgumentParser(
        prog="python -m workers.zone_router",
        description="Run one node of the zone router until it receives SIGTERM or SIGINT.",
    )
    parser.add_argument("--file", type=Path, required=True, help="path of the router file (YAML)")
    parser.add_argument("--node", required=True, help="name of the node in the file to run")
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
        print(f"cannot listen: {error}. Free the port, or change it in the router file", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
