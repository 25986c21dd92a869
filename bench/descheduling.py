"""One round of the descheduler on a large cluster, and koord-descheduler's on the same objects.

A real `koordpy worker` follows an API server that has 5,000 nodes and 150,000 pods (`bench.hot_cluster`), and
runs rounds in dry run, one after the other. With `KOORD_DESCHEDULER`, the path of a koord-descheduler that
was built elsewhere, that one follows the same API server with the same configuration, in the same run.
"""

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from bench import hot_cluster, machine, servers
from bench.report import Result
from tests.e2e.controlplane.process import Process

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES", Path(__file__).parents[2] / "shared" / "samples"))
SHIPPED = SAMPLES / "koordinator" / "descheduler-config.yaml"

WINDOW = 20.0
"""Seconds in which rounds are counted."""

PEER_ROUNDS = 4
"""Rounds of koord-descheduler that are measured, after the first."""

STALL_WINDOW = 5.0
PATIENCE = 300.0


Document = dict[str, Any]


class Configuration(Enum):
    """What runs in a round."""

    ALONE = "LowNodeLoad alone"
    SHIPPED = "the shipped configuration with LowNodeLoad"
    PROVED = "the same, and every eviction is proved first"
    """Koordinator has no such thing."""


GOALS = {
    Configuration.ALONE: "goal: 1 s and 1.5 GiB at most",
    Configuration.SHIPPED: "goal: 3 s at most",
    Configuration.PROVED: "",
}


@dataclass(frozen=True)
class Setting:
    """A cluster, and who is measured on it."""

    nodes: int
    hot: bool
    with_peer: bool

    @property
    def label(self) -> str:
        """What the rows of the setting begin with."""
        return f"{self.nodes:,} nodes, {'some of them hot' if self.hot else 'nothing to do'}"


SETTINGS = (Setting(5_000, False, True), Setting(5_000, True, False), Setting(250, True, True))
"""A round with hot nodes takes koord-descheduler many seconds among 500 nodes already: it has fewer."""


def run(rounds: int = 1, settings: Sequence[Setting] = SETTINGS) -> Result:
    """Measure; `rounds` is how often each process is started."""
    result = Result.begin(
        "descheduling",
        wall="a round, s",
        cpu="CPU of a round, s",
        memory="memory, MiB",
        peak="most memory, MiB",
        evictions="evictions of a round",
        stall="longest wait for /healthz, ms",
    )
    peer = os.environ.get("KOORD_DESCHEDULER")
    for setting in settings:
        with servers.folder() as folder:
            port = servers.free_port()
            url = f"http://127.0.0.1:{port}"
            arguments = str(port), str(setting.nodes), "hot" if setting.hot else "cool"
            with servers.running("api", servers.module("hot_cluster", *arguments), f"{url}/readyz", folder):
                for _ in range(rounds):
                    for which in Configuration:
                        if which is Configuration.PROVED and not setting.hot:
                            continue
                        label, config = f"{setting.label}: {which.value}", configuration(which)
                        goal = GOALS[which] if setting.nodes == SETTINGS[0].nodes else ""
                        result.row(f"{label}: koordpy", goal).add(**_koordpy(config, url, folder))
                        if peer and setting.with_peer and which is not Configuration.PROVED:
                            found = _koord_descheduler(Path(peer), config, url, folder)
                            result.row(f"{label}: koord-descheduler").add(**found)
    result.notes.append(
        f"{hot_cluster.PODS_OF_A_NODE} pods a node, dry run, rounds without pauses between them. LowNodeLoad "
        "has the shipped thresholds; one abnormal round is enough for evictions."
    )
    return result


def configuration(which: Configuration) -> Document:
    """Return a DeschedulerConfiguration for dry runs without pauses."""
    sample = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    config: Document = yaml.safe_load(sample["data"]["koord-descheduler-config"])
    config |= {"dryRun": True, "deschedulingInterval": "1ms", "leaderElection": {"leaderElect": False}}
    profile = config["profiles"][0]
    profile["plugins"]["balance"] = {"enabled": [{"name": "LowNodeLoad"}]}
    arguments = {entry["name"]: entry["args"] for entry in profile["pluginConfig"]}["LowNodeLoad"]
    arguments |= {
        "nodeMetricExpirationSeconds": 86_400,  # the NodeMetrics never change
        "anomalyCondition": {"consecutiveAbnormalities": 1, "consecutiveNormalities": 1},
    }
    if which is Configuration.ALONE:
        for point in ("evict", "filter"):
            profile["plugins"][point] = {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]}
        profile["pluginConfig"] = [{"name": "LowNodeLoad", "args": arguments}]
    if which is Configuration.PROVED:
        profile["proof"] = {"enabled": True}
    return config


def _koordpy(config: Document, url: str, folder: Path) -> dict[str, float]:
    debug = f"http://127.0.0.1:{servers.free_port()}"
    file = folder / "koordpy-config.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = servers.koordpy(
        "worker",
        "--server",
        url,
        "--parts",
        "descheduler",
        "--descheduler-config",
        str(file),
        "--debug-bind",
        debug.removeprefix("http://"),
    )

    def metric(name: str) -> float:
        with urllib.request.urlopen(f"{debug}/metrics", timeout=30) as response:
            found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", response.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    count, total = (f"koordpy_descheduler_round_duration_seconds_{part}" for part in ("count", "sum"))
    with servers.running("koordpy", command, f"{debug}/healthz", folder) as process:
        _until(lambda: metric(count) >= 2, process)
        rounds, seconds, cpu = metric(count), metric(total), machine.cpu_seconds(process.pid)
        time.sleep(WINDOW)
        more, used = metric(count) - rounds, machine.cpu_seconds(process.pid) - cpu
        wall = (metric(total) - seconds) / more
        found = _memory(process.pid)
        stall = _longest_wait(f"{debug}/healthz")
        evictions = _evictions(debug)
    return {"wall": wall, "cpu": used / more, "evictions": evictions, "stall": stall, **found}


def _evictions(debug: str) -> int:
    """Return how many evictions the last finished round had."""
    url = f"{debug}/apis/v1/descheduling/rounds?details=false&limit=2"
    with urllib.request.urlopen(url, timeout=60) as response:
        last: Document = next(each for each in json.load(response) if each["ended"] is not None)
    return sum(
        attempts["pods"]
        for of_plugin in last["runs"]
        for attempts in of_plugin["attempts"]
        if attempts["outcome"] == "dryRun"
    )


def _longest_wait(url: str) -> float:
    """Return the longest of some calls in ms, while rounds run."""
    longest, until = 0.0, time.monotonic() + STALL_WINDOW
    while time.monotonic() < until:
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=30) as response:
            response.read()
        longest = max(longest, time.perf_counter() - began)
        time.sleep(0.01)
    return longest * 1e3


_ROUND = re.compile(r'^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*"Criteria for nodes', re.MULTILINE)
_EVICTED = '"Evicted pod in dry run mode"'


def _koord_descheduler(binary: Path, config: Document, url: str, folder: Path) -> dict[str, float]:
    """Measure koord-descheduler; it logs a line in every round, so a round lasts from line to line."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url)), encoding="utf-8")
    connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    addresses = dict.fromkeys(("healthzBindAddress", "metricsBindAddress"), "127.0.0.1:0")
    file = folder / "koord-descheduler-config.yaml"
    file.write_text(yaml.safe_dump({**config, **addresses, "clientConnection": connection}), encoding="utf-8")
    command: list[str | Path] = ["env", _NAMESPACE, binary, "--config", file, "--secure-port=0", "-v=1"]
    process = Process(f"koord-descheduler-{time.monotonic_ns()}", command, folder)

    def rounds() -> list[re.Match[str]]:
        return list(_ROUND.finditer(process.log.read_text(encoding="utf-8", errors="replace")))

    try:
        _until(lambda: len(rounds()) > 1, process)
        cpu = machine.cpu_seconds(process.pid)
        first = len(rounds()) - 1
        _until(lambda: len(rounds()) > first + PEER_ROUNDS, process)
        used, found = machine.cpu_seconds(process.pid) - cpu, _memory(process.pid)
    finally:
        process.stop()
    lines = rounds()[first : first + PEER_ROUNDS + 1]
    began, ended = (sum(map(float.__mul__, _PARTS, map(float, lines[at].groups()))) for at in (0, -1))
    text = process.log.read_text(encoding="utf-8", errors="replace")[lines[0].start() : lines[-1].start()]
    return {
        "wall": (ended - began) / PEER_ROUNDS,
        "cpu": used / PEER_ROUNDS,
        "evictions": text.count(_EVICTED) / PEER_ROUNDS,
        **found,
    }


_PARTS = 3600.0, 60.0, 1.0
"""Seconds of the parts of a time of day."""

_NAMESPACE = "POD_NAMESPACE=koordinator-system"


def _kubeconfig(url: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }


def _memory(pid: int) -> dict[str, float]:
    """Return the resident memory of a process, now and at its peak."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kib = {
        name: int(number) for name, number in re.findall(r"^(VmHWM|VmRSS):\s+(\d+) kB", status, re.MULTILINE)
    }
    return {"memory": kib["VmRSS"] / 1024, "peak": kib["VmHWM"] / 1024}


def _until(ready: Callable[[], bool], process: Process) -> None:
    """Wait for a process. Raises ProcessFailed with the end of its log."""
    process.wait_ready(ready, seconds=PATIENCE)
