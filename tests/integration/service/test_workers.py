"""`koordpy serve --workers`: several processes behind one port, looked at from outside."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from koordpy.embedded.apiserver import ApiServer
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, pod_document, review_of
from tests.servers.caller import Caller

JSON = "content-type: application/json\r\n"


class Workers:
    def __init__(self, process: "subprocess.Popen[bytes]", admission: str, debug: str, log: Path) -> None:
        self.process, self.admission, self._debug, self._log = process, admission, debug, log
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as client:
            return await client.get(self._debug + path)

    async def wait_ready(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert self.process.poll() is None, self.log
                with suppress(httpx.HTTPError):
                    if (await self.get("/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    async def samples(self, name: str, **labels: str) -> dict[str, float]:
        """Return a metric by worker."""
        return {
            sample.labels["worker"]: sample.value
            for family in text_string_to_metric_families((await self.get("/metrics")).text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    async def reviews(self, connections: int, each: int) -> None:
        """Call the webhook on connections that stay open."""
        body = json.dumps(review_of(pod_document("p"))).encode()
        callers = [Caller(self.admission, self.tls) for _ in range(connections)]
        for caller in callers:
            await caller.__aenter__()
        for _ in range(each):
            for answer in await asyncio.gather(
                *(caller.post("/mutate-pod", body, JSON) for caller in callers)
            ):
                assert json.loads(answer.body)["response"]["allowed"] is True
        for caller in callers:
            caller.hang_up()

    def pids(self) -> list[int]:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in found.split()]


def started(command: list[str], log: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen(command, stderr=file, env=environment, start_new_session=True)


def left_behind(folder: Path) -> list[Path]:
    return list(folder.glob("koordpy-*"))


@asynccontextmanager
async def serving(folder: Path, *options: str) -> AsyncIterator[Workers]:
    server = ApiServer(crds=CRDS)
    await server.start()
    admission, debug = free_port(), free_port()
    log = folder / "log"
    command = [
        *(sys.executable, "-c", "from koordpy.cli import main; main()", "serve", "--workers", "2"),
        *("--doors", "admission,debug", "--server", server.url, "--cert-dir", str(folder / "certs")),
        *("--admission-bind", f"127.0.0.1:{admission}", "--debug-bind", f"127.0.0.1:{debug}", *options),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = started(command, log, environment)
    try:
        workers = Workers(process, f"https://127.0.0.1:{admission}", f"http://127.0.0.1:{debug}", log)
        await workers.wait_ready()
        yield workers
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        await server.stop()


async def ends(workers: Workers) -> int:
    return await asyncio.to_thread(workers.process.wait, PATIENCE)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_both_workers_answer_and_one_scrape_tells_of_both(tmp_path: Path) -> None:
    async with serving(tmp_path) as workers:
        before = {"0": 0.0, "1": 0.0}
        for _ in range(20):
            await workers.reviews(connections=16, each=25)
            counted = await workers.samples(
                "controller_runtime_webhook_requests_total", webhook="/mutate-pod", code="200"
            )
            answered = {name: counted[name] - before[name] for name in counted}
            assert sum(answered.values()) == 400
            if min(answered.values()) >= 100:
                break
            before = counted  # a worker that the machine lets wait leaves connections to the other one
        assert min(answered.values()) >= 100, answered
        assert await workers.samples("koordpy_worker_up") == {"0": 1, "1": 1}
        assert len(set((await workers.samples("process_start_time_seconds")).values())) == 2
        admissions: list[dict[str, Any]] = (await workers.get("/apis/v1/admissions?limit=100")).json()
        assert len(admissions) == 100
        assert {admission["worker"] for admission in admissions} == {0, 1}
        assert admissions == sorted(admissions, key=lambda a: str(a["time"]), reverse=True)
        assert (await workers.get("/apis/v1/admissions?limit=0")).status_code == 400
        workers.process.terminate()
        assert await ends(workers) == 0
    assert left_behind(tmp_path) == []


async def test_a_killed_worker_is_missed_by_nobody_for_long(tmp_path: Path) -> None:
    async with serving(tmp_path) as workers:
        before = workers.pids()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        for _ in range(20):
            await workers.reviews(connections=2, each=1)
        async with asyncio.timeout(PATIENCE):
            while await workers.samples("koordpy_worker_up") != {"0": 1, "1": 1}:
                await asyncio.sleep(0.05)
        assert len(set(workers.pids()) - set(before)) == 1
        assert "SIGKILL" in workers.log
        assert (await workers.get("/readyz")).status_code == 200


async def test_a_killed_parent_leaves_nobody_and_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as workers:
        pids = workers.pids()
        workers.process.kill()
        async with asyncio.timeout(PATIENCE):
            while any(map(lives, pids)):
                await asyncio.sleep(0.02)
    assert left_behind(tmp_path) == []


async def test_requests_under_way_are_answered_when_it_stops(tmp_path: Path) -> None:
    body = json.dumps(review_of(pod_document("p"))).encode()
    async with serving(tmp_path) as workers:
        callers = [Caller(workers.admission, workers.tls) for _ in range(6)]
        head = f"POST /mutate-pod HTTP/1.1\r\nhost: t\r\n{JSON}content-length: {len(body)}\r\n\r\n".encode()
        for caller in callers:
            await caller.__aenter__()
            await caller.send(head + body[:100])
        await asyncio.sleep(0.2)
        workers.process.terminate()
        await asyncio.sleep(0.2)
        for caller in callers:
            await caller.send(body[100:])
            assert json.loads((await caller.answer()).body)["response"]["allowed"] is True
        assert await ends(workers) == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("--workers", "2"),
            "cannot open the extender door: what it has handed out to pods",
        ),
        (("--workers", "0", "--doors", "admission"), "0 is not in the range"),
    ],
)
def test_workers_that_cannot_be_are_refused_with_the_reason(options: tuple[str, ...], why: str) -> None:
    command = [sys.executable, "-c", "from koordpy.cli import main; main()", "serve", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert why in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_taken_port_ends_it_before_a_worker_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        command = [
            *(sys.executable, "-c", "from koordpy.cli import main; main()", "serve", "--workers", "2"),
            *("--doors", "debug", "--debug-bind", f"127.0.0.1:{taken.getsockname()[1]}"),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 1
    assert "the debug listener cannot use" in ended.stderr
