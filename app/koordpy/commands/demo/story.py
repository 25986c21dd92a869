"""The story of the demo: koordpy's features shown on one set of pods.

The demo fails if a step does not really happen; with the user's own configuration, whose policies may differ,
it only shows what happened.
"""

import asyncio
import copy
import logging
import random
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape

from koordpy import data
from koordpy import main as runtime
from koordpy import settings as process_settings
from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains, gate_specs
from koordpy.admission.explain import explain
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.commands import calling, why
from koordpy.commands import explain as explaining
from koordpy.commands.debug_client import DEBUG_URL
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.compose.parts.descheduler import DeschedulerPart
from koordpy.compose.process import Process
from koordpy.descheduling.decisions import Outcome
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates

from .cluster import DemoCluster, DemoFailed, DemoOptions

GI = 1024**3
NODE_CPU, NODE_MEMORY = 16, 64 * GI
HOT_EVERY = 7
SPARK_PODS = ONLINE_PODS = 20
WAIT_SECONDS = 60.0
CUSTOM_WAIT_SECONDS = 15.0
"""How long pods may wait where the user's configuration decides: it may leave them pending on purpose."""
REPORT_SECONDS = 60


def run(to: Console, options: DemoOptions, *, leave: bool, endpoints: Path | None = None) -> None:
    """Run the demo; then keep running until interrupted, unless `leave`.

    `endpoints` is the file that says where everything is, once all of it answers. Raises DemoFailed,
    ConfigError.
    """

    async def story(stopping: asyncio.Event) -> None:
        with tempfile.TemporaryDirectory(prefix="koordpy-demo-") as folder:
            async with AsyncExitStack() as stack:
                demo = Demo(to, options, Path(folder), stack)
                await demo.tell()
                if endpoints is not None:
                    demo.cluster.endpoints.write(endpoints)
                if not leave:
                    demo.invite()
                    await demo.keep_up(stopping)

    logging.getLogger("koordpy").setLevel(logging.ERROR)
    runtime.run(story)


class Demo:
    """Tells the story. Everything it opens is closed by the exit stack."""

    def __init__(self, to: Console, options: DemoOptions, folder: Path, stack: AsyncExitStack) -> None:
        if options.nodes < HOT_EVERY + 1:
            raise DemoFailed(
                f"--nodes: got {options.nodes}, expected at least {HOT_EVERY + 1} to have hot and cool ones"
            )
        self.cluster = DemoCluster(options, folder, stack)
        self._to = to
        self._insists = not options.is_customized
        self._nodes = [f"node-{i:03d}" for i in range(options.nodes)]
        self._hot = [name for i, name in enumerate(self._nodes) if i % HOT_EVERY == HOT_EVERY // 2]
        self._began = time.perf_counter()

    async def tell(self) -> None:
        """Run all steps in order."""
        await self._step("A control plane, without Kubernetes", self.cluster.start_control_plane)
        await self._step(f"{len(self._nodes)} nodes, {len(self._hot)} of them hot", self._fill_cluster)
        await self._step("koordpy serves, and is registered", self.cluster.serve)
        await self._step("Pods are created", self._create_pods)
        self._to.print()
        for show in (self._show_admission, self._show_placement, self._show_descheduling):
            try:
                await show()
            except DemoFailed as failed:
                if self._insists:
                    raise
                self._to.print(f"[yellow]With this configuration:[/] {escape(str(failed))}")
        self._to.print(f"\n[bold green]The whole demo took {time.perf_counter() - self._began:.1f} s.[/]")

    async def _step(self, title: str, step: Callable[[], Any]) -> None:
        with self._to.status(title) if self._to.is_terminal else nullcontext():
            outcome = await step()
        self._to.print(f"[green]✓[/green] {title}: {outcome}")

    # --- steps -------------------------------------------------------------------------------------

    async def _fill_cluster(self) -> str:
        await self.cluster.objects.create_all(data.documents("demo", "objects.yaml"))
        await asyncio.gather(*(self._create_node(name) for name in self._nodes))
        hottest = max(self._usage(name) for name in self._hot)
        coolest = min(self._usage(name) for name in self._nodes)
        return f"CPU usage from {coolest:.0%} to {hottest:.0%}; hot ones have few requests, so they seem free"

    async def _create_node(self, name: str) -> None:
        amounts = {
            "cpu": str(NODE_CPU),
            "memory": str(NODE_MEMORY),
            "pods": "110",
            "kubernetes.io/batch-cpu": "8k",
            "kubernetes.io/batch-memory": str(32 * GI),
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        await self._create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
        hot = name in self._hot
        residents = [f"crunch-{name}-{i}" for i in range(2)] if hot else [f"service-{name}"]
        for resident in residents:
            await self._create(_pod("shop", resident, {}, "100m" if hot else "4", "128Mi", node=name))
        usage = self._usage(name)
        metric = {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": name},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": REPORT_SECONDS}},
        }
        await self._create(metric)
        status = {
            "nodeMetric": {"nodeUsage": {"resources": _usage(usage, 0.4)}},
            "podsMetric": [
                {"namespace": "shop", "name": pod, "podUsage": {"resources": _usage(usage / 2.2, 0.1)}}
                for pod in residents
            ],
        }
        await self._report(name, status)

    async def _report(self, node: str, status: dict[str, Any]) -> None:
        """Write a node's usage, or renew its report, as its koordlet would."""
        at = {"updateTime": format_time(SystemClock().now())}
        await self.cluster.client.patch_status(NodeMetric, "", node, {"status": at | status})

    async def keep_up(self, stopping: asyncio.Event) -> None:
        """Report for all nodes periodically: LoadAwareScheduling ignores expired reports."""
        while not stopping.is_set():
            await asyncio.gather(*(self._report(name, {}) for name in self._nodes))
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), REPORT_SECONDS)

    async def _create_pods(self) -> str:
        spark = {"sparkoperator.k8s.io/launched-by-spark-operator": "true", "app": "spark"}
        online = {"tier": "online", "app": "web"}
        self._submitted = [
            *(_pod("analytics", f"spark-{i:02d}", spark, "1", "2Gi") for i in range(SPARK_PODS)),
            *(_pod("shop", f"web-{i:02d}", online, "500m", "1Gi") for i in range(ONLINE_PODS)),
        ]
        await asyncio.gather(*(self._create(document) for document in self._submitted))
        wanted = {(d["metadata"]["namespace"], d["metadata"]["name"]) for d in self._submitted}
        self._placed: dict[tuple[str, str], Pod] = {}
        deadline = time.monotonic() + (WAIT_SECONDS if self._insists else CUSTOM_WAIT_SECONDS)
        while len(self._placed) < len(wanted):
            if time.monotonic() > deadline:
                pending = sorted(wanted - set(self._placed))
                problem = f"{len(pending)} pods were not bound, first {'/'.join(pending[0])}"
                if self._insists:
                    raise DemoFailed(problem)
                return f"with this configuration {problem}"
            for pod in await self.cluster.client.list_all(Pod):
                key = (pod.metadata.namespace, pod.metadata.name)
                if key in wanted and pod.spec.node_name:
                    self._placed[key] = pod
            await asyncio.sleep(0.05)
        return f"{len(self._placed)} pods, all bound through the extender"

    # --- results -----------------------------------------------------------------------------------

    async def _show_admission(self) -> None:
        document = self._submitted[0]
        meta = document["metadata"]
        key = (meta["namespace"], meta["name"])
        admissions = [
            a
            for a in self.cluster.process.part(AdmissionPart).chains["/mutate-pod"].history
            if (a.namespace, a.name) == key and a.patch
        ]
        if not admissions:
            raise DemoFailed(f"the webhook changed nothing in pod {'/'.join(key)}")
        stored = self._placed.get(key)
        if stored is None:
            raise DemoFailed(f"pod {'/'.join(key)} is pending")
        if stored.metadata.labels.get("koordinator.sh/qosClass") != "BE" or stored.spec.priority != 5000:
            raise DemoFailed(f"pod {'/'.join(key)} does not have what its profile sets")
        explained = explain(self._chain_of_its_own(), _defaulted(document))
        if explained.patch != admissions[0].operations():
            raise DemoFailed(f"the explanation for pod {'/'.join(key)} differs from what the webhook did")
        self._to.print("[bold]What admission changed in one of them[/bold]")
        explaining.show(self._to, [explained])

    def _chain_of_its_own(self) -> Chain:
        """Return a second copy of the service's admission chain, so that explaining leaves no history."""
        gates = FeatureGates(gate_specs())
        handle = AdmissionHandle(self.cluster.process.cluster, gates, random.Random(), SystemClock())
        return build_chains(AdmissionConfig(), handle)["/mutate-pod"]

    async def _show_placement(self) -> None:
        hot = [key for key, pod in self._placed.items() if pod.spec.node_name in self._hot]
        if hot:
            raise DemoFailed(f"{len(hot)} pods went to hot nodes, first {'/'.join(hot[0])}")
        used = Counter(pod.spec.node_name for pod in self._placed.values())
        self._to.print(
            f"\n[bold]Where the pods went[/bold]\n  {len(self._placed)} pods on {len(used)} of "
            f"{len(self._nodes) - len(self._hot)} cool nodes, none on the {len(self._hot)} hot ones"
        )
        if not self._placed:
            raise DemoFailed("no pod was bound")
        namespace, name = next(iter(self._placed))
        found = await self._get(f"/apis/v1/decisions/{namespace}/{name}")
        why.show(self._to, found)
        if not why.rejected_by(found, "LoadAwareScheduling"):
            raise DemoFailed("LoadAwareScheduling refused no node: it did not keep pods off hot nodes")

    async def _show_descheduling(self) -> None:
        config = str(data.deploy("demo", "descheduler.yaml"))
        access, settings = (
            {"server": self.cluster.api.url},
            {"descheduler": {"config": config}, "leaderElect": False},
        )
        worker = Process(
            process_settings.load(None, {"client": access, "worker": settings}),
            ["descheduler"],
            listens=False,
        )
        async with asyncio.timeout(WAIT_SECONDS):
            await worker.run()
        [outcome] = worker.part(DeschedulerPart).descheduler.decisions.rounds
        if outcome.error:
            raise DemoFailed(f"the descheduler's round failed: {outcome.error}")
        chosen = [e for e in outcome.evictions if e.outcome is Outcome.DRY_RUN]
        if not chosen or {e.node for e in chosen} - set(self._hot):
            raise DemoFailed(f"LowNodeLoad chose {len(chosen)} pods, expected some, all on hot nodes")
        self._to.print(f"\n[bold]What LowNodeLoad would evict (dry run)[/bold]: {len(chosen)} pods")
        for eviction in chosen[:5]:
            self._to.print(f"  {eviction.pod} on {eviction.node}: {escape(eviction.reason)}")

    def invite(self) -> None:
        """Print what to try next."""
        endpoints = self.cluster.endpoints
        meta = self._submitted[0]["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        pod, koordpy, python = f"{namespace}/{name}", calling.koordpy(), calling.python()
        debug = endpoints.debug
        at = "" if debug == DEBUG_URL else f" --debug-server {debug}"
        self._to.print("\n[bold]Still running; try[/bold]")
        for line in (
            f"export KUBECONFIG={shlex.quote(endpoints.kubeconfig)}",
            "kubectl get pods -A -o wide",
            "kubectl get clustercolocationprofiles,nodemetrics",
            f"{koordpy} doctor",
            f"{koordpy} why {pod}{at}",
            f"{koordpy} why {pod} --history{at}",
            f"kubectl get pod -n {namespace} {name} -o json | {koordpy} whatif -f - --count 100{at}",
            f"curl -s '{debug}/apis/v1/decisions?limit=1' | {python} -m json.tool",
            f"curl -s {debug}/apis/v1/nodes/{self._hot[0]}",
            f"curl -s '{debug}/readyz?verbose'",
            f"{koordpy} profile explain {pod}",
            f"{koordpy} profile lint",
        ):
            self._to.print(f"  {escape(line)}", soft_wrap=True)
        self._to.print("Ctrl-C ends it.")

    # --- helpers -----------------------------------------------------------------------------------

    def _usage(self, name: str) -> float:
        """Return a node's CPU usage as a fraction, derived from its name, high on hot nodes."""
        share = random.Random(name).random()
        return 0.78 + 0.15 * share if name in self._hot else 0.15 + 0.25 * share

    async def _create(self, document: dict[str, Any]) -> None:
        await self.cluster.objects.create(document)

    async def _get(self, path: str) -> Any:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.cluster.process.listeners['debug'].url}{path}")
        if answer.status_code != 200:
            raise DemoFailed(f"GET {path} answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()


def _pod(
    namespace: str, name: str, labels: dict[str, str], cpu: str, memory: str, node: str = ""
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "demo", "uid": "demo", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
    }


def _defaulted(document: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as webhooks receive it: the API server sets these fields before it calls them."""
    result = copy.deepcopy(document)
    result["spec"] |= {
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return result


def _usage(cpu: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{int(cpu * NODE_CPU * 1000)}m", "memory": str(int(memory * NODE_MEMORY))}
