"""Response times of the console for a large company.

It has 50 clusters, 200 tenants, 5,000 streams, 1,000,000 events, 10,000 consumer groups, and 5,000 subjects with
two versions each on its primary, the only cluster with a broker.
Each page is requested many times by one browser; the peer is the server's answer to /livez, which needs no
lookups. Then 20 browsers watch the tree while it changes. Fails if a page takes more than 200 ms at the 95th
percentile, the first page has more than 170 kB, or a change takes more than a second to appear.

The page of a stream's messages is left out: it reads from brokers, and this company has no topics there.
`bench/messages` measures what it shows.
"""

from __future__ import annotations

import argparse
import gzip
import re
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import company
import httpx2
import measured
import observed
import registered
from brokers import single_broker_clusters

from backend.eventlog.engine import create_engine
from tests.eventually import eventually
from tests.support.api import http
from tests.support.console.consoles import TOKEN, Console, serve
from tests.support.database.postgres import TEMPLATE, RunningPostgres, create_database, migrate

PROD = "/tenants/tenant-007/main/prod"
PAGES = """
/livez
/overview /overview/-live
/tree /tree?at={half} /tree?collapsed=none /tree?collapsed=quiet&open=cluster-7 /tree?open=cluster-7:2
/tree/-drawer?open=cluster-7 /tree/-drawer?open=cluster-7:2
/tree/edit /tree/-primary /tree/-target/cluster-7/2 /tree/-settings/cluster-7/2
/clusters /clusters/-live /clusters?at={half} /clusters/-new
/clusters?sort=-topics&filter=az1 /tree?sort=-lag&filter=cluster-1&rows=250
/clusters/cluster-1 /clusters/cluster-1?at={half} /clusters/cluster-1/-change /clusters/cluster-1/replication
/clusters/cluster-1/replication?at={half}
/tenants /tenants?at={half} /tenants/tenant-007 /tenants/tenant-007?at={half} /tenants/tenant-007/-grants
/tenants/tenant-007/-members/-new
{prod} {prod}?at={half} {prod}/-change {prod}/-new
{prod}?sort=state&filter=applied {prod}?sort=-partitions&rows=250 /tenants?sort=-streams&filter=tenant-00&rows=250
{prod}/stream-0007 {prod}/stream-0007?at={half} {prod}/stream-0007/-change {prod}/stream-0007/-applied
{prod}/stream-0007/-groups {prod}/stream-0007/-partitions {prod}/stream-0007/-settings
{prod}/stream-0007/-settings?at={half} {prod}/stream-0007/-schema {prod}/stream-0007/-history
{prod}/stream-0007/-history?at={half} /tenants/-stream?find=prod
{prod}/-applications/application-0007 {prod}/-applications/application-0007?at={half}
{prod}/-applications/application-0007/-change
/schemas /schemas?at={half} /schemas?filter=stream-00 /schemas?sort=-id&rows=250
/schemas/cluster-1/{subject} /schemas/cluster-1/{subject}?version=1
/groups /groups?sort=name /groups?text=group-77&diagnosis=slower-than-producers /groups/-live
/groups?stream=tenant-007/main/prod/stream-0007 /groups/-of?cluster=cluster-1&group=tenant-000-main-prod-group-0
/charts /charts?metric=group.lag_records /charts?metric=edge.lag_records&subject=cluster-1:2
/charts?metric=edge.records_per_second&range=7d
/charts?metric=group.lag_records&subject=cluster-1/tenant-000-main-prod-group-0&range=7d
/offsets /offsets?at={half} /offsets?at={half}&group=group-7
/offsets?at={half}&stream=tenant-007/main/prod/stream-0007
/losses /switches /switches?places-sort=-name&places-filter=prod&places-rows=250
/switches/plan /placements /placements/-new /zones /drills /trace
/timeline /timeline/-live /timeline?actor=user-7 /timeline?name=TenantCreated /timeline?stream=tenant-tenant-007
/timeline?before={half} /timeline/{half} /timeline/-differences?from={late} /timeline/-moment?position={half}
/timeline/{given}/-undo
/audit /audit?at={half} /audit?actor=user-7 /audit?kind=Logins /audit?tenant=tenant-007
/users /users/user-7 /users?at={half} /users?sort=-tenants&filter=owner&rows=250 /webhooks /account
/find?q=stream-0007 /find/-hits?q=tenant /find/-hits?q=plan+switch /find/-hits?q=group-77
/find/-names?kind=series&of=group.lag_records
"""
MOST_MS, MOST_BYTES, MOST_SECONDS = 200.0, 170_000, 1.0
BROWSERS = 20


def timed(client: httpx2.Client, path: str, times: int) -> tuple[list[float], int]:
    """Return the milliseconds of each answer, and the bytes of the last."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        answer = client.get(path)
        found.append(1000 * (time.perf_counter() - began))
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
    return found, len(answer.content)


def first_page_bytes(client: httpx2.Client) -> int:
    """Return the bytes of the overview with all its files, compressed as by a proxy in front; fonts unchanged."""
    text = client.get("/overview").text
    total = len(gzip.compress(text.encode()))
    styles = [client.get(path) for path in re.findall(r'<link rel="stylesheet" href="([^"]+)"', text)]
    scripts = [client.get(path) for path in re.findall(r'<script src="([^"]+)"', text)]
    total += sum(len(gzip.compress(each.content)) for each in (*styles, *scripts))
    fonts = {path for each in styles for path in re.findall(r'url\("?([^")]*latin-[^")]*woff2)"?\)', each.text)}
    return total + sum(len(client.get(path if path[0] == "/" else f"/static/{path}").content) for path in fonts)


def watched(console: Console) -> list[float]:
    """Return the seconds until each browser that watches the tree has received a new tenant."""
    ready, heard = threading.Barrier(BROWSERS + 1), [0.0] * BROWSERS
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def watch(number: int) -> None:
        client = http.client(base_url=console.url, headers=headers, timeout=60)
        with client, client.stream("GET", "/tree/live") as answer:
            lines = answer.iter_lines()
            next(lines)
            time.sleep(3)  # the initial blocks have arrived
            ready.wait()
            for line in lines:
                if "seen-by-all" in line:
                    heard[number] = time.perf_counter()
                    return

    threads = [threading.Thread(target=watch, args=(number,)) for number in range(BROWSERS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    console.rest.ok("POST", "/tenants", {"name": "seen-by-all"})
    for thread in threads:
        thread.join()
    return [each - began for each in heard]


def schemas_are_read(client: httpx2.Client) -> None:
    """Wait until the control plane has read the subjects of the primary."""

    def are_read() -> bool:
        return f"of {registered.STREAMS:,}" in client.get("/schemas").text

    eventually(are_read, "the schemas are read")


def told(console: Console, times: int, events: int) -> int:
    failed = []
    print("| page | p50 | p95 | bytes |\n|---|---:|---:|---:|")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with http.client(base_url=console.url, headers=headers, timeout=60) as client:
        given = console.rest.ok("GET", "/events?name=MembershipGiven&limit=1")["items"][0]["position"]
        schemas_are_read(client)
        named = {"prod": PROD, "subject": registered.SUBJECT, "given": given}
        for path in PAGES.format(**named, half=events // 2, late=events - 1000).split():
            client.get(path)
            found, size = timed(client, path, times)
            p95 = statistics.quantiles(found, n=20)[-1]
            print(f"| `{path}` | {statistics.median(found):.0f} ms | {p95:.0f} ms | {size:,} |", flush=True)
            if p95 > MOST_MS:
                failed.append(path)
        first = first_page_bytes(client)
    slowest = max(watched(console))
    print(f"\nThe first page with all that belongs to it: {first:,} bytes (limit {MOST_BYTES:,}).")
    print(f"The last of {BROWSERS} browsers saw a change after {slowest:.2f} s (limit {MOST_SECONDS:g}).")
    failed += ["first page"] if first > MOST_BYTES else []
    failed += ["live"] if slowest > MOST_SECONDS else []
    if failed:
        print(f"beyond its limits: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=40, help="each page is asked for")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        single_broker_clusters(Path(folder), company.CLUSTERS[:1]) as servers,
    ):
        print(f"{registered.fill(servers[company.CLUSTERS[0]]):,} subjects are registered", file=sys.stderr)
        postgres = RunningPostgres(Path(folder) / "data")
        postgres.start()
        try:
            create_database(postgres.server, TEMPLATE)
            migrate(postgres.url)
            with serve(postgres.url, Path(folder) / "api.log") as (console, _):
                company.lay_out(console.rest, servers[company.CLUSTERS[0]])
            engine, began = create_engine(postgres.url), time.perf_counter()
            company.fill(engine, given.events)
            print(f"{given.events:,} events in {time.perf_counter() - began:.0f} s", file=sys.stderr)
            took = observed.fill(engine, given.events // 2)
            said = ", ".join(f"{each:.1f}" for each in took)
            print(f"Looks at {observed.GROUPS:,} groups on {1 + observed.ELSEWHERE} clusters each took {said} s.")
            series = measured.fill(engine)
            print(f"{measured.GROUPS:,} consumer groups are observed, and {series:,} series have a history.")
            engine.dispose()
            with serve(postgres.url, Path(folder) / "api.log") as (console, _):
                return told(console, given.times, given.events)
        finally:
            postgres.kill()


if __name__ == "__main__":
    sys.exit(main())
