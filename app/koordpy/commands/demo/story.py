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
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape

from koordpy import data
from koordpy import main as runtime
from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains, gate_specs
from koordpy.admission.explain import explain
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.api import quantity
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.commands import calling, colocate_explain, gang, quota, why
from koordpy.commands import explain as explaining
from koordpy.commands.debug_client import DEBUG_URL
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.lib.clock import SystemClock
from koordpy.lib.counting import counted
from koordpy.lib.feature_gates import FeatureGates

from . import accelerators, workload
from .batch_resources import CONTROLLERS, FEATURE_GATES, BatchResources
from .cluster import DemoCluster, DemoFailed, DemoOptions
from .relief import Relief
from .relief import show as show_relief

HOT_EVERY = 7
HOT_ABOVE = 0.65
"""The fraction of its CPU in use from which on a node is hot: `highThresholds` of the demo's LowNodeLoad."""
WAIT_SECONDS = 60.0
CUSTOM_WAIT_SECONDS = 15.0
"""How long pods may wait where the user's configuration decides: it may leave them pending on purpose."""
QUIET_SECONDS = 3.0
"""How long a step waits before it says what for."""


def run(to: Console, options: DemoOptions, *, leave: bool, endpoints: Path | None = None) -> None:
    """Run the demo; then keep running until interrupted, unless `leave`.

    `endpoints` is the file that says where everything is, once all of it answers. Raises DemoFailed,
    ConfigError.
    """

    async def story(stopping: asyncio.Event) -> None:
        with tempfile.TemporaryDirectory(prefix="koordpy-demo-") as folder:
            async with AsyncExitStack() as stack:
                demo = Demo(to, options, Path(folder), stack)
                if not await _unless(stopping, demo.tell()):
                    return
                if endpoints is not None:
                    demo.cluster.endpoints.write(endpoints)
                if not leave:
                    demo.invite()
                    await stopping.wait()

    logging.getLogger("koordpy").setLevel(logging.ERROR)
    runtime.run(story)


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Return whether the work was done before `stopping` was set. Raises what it raises."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done = tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if done:
        tasks[0].result()
    return done


class Demo:
    """Tells the story. Everything it opens is closed by the exit stack."""

    def __init__(self, to: Console, options: DemoOptions, folder: Path, stack: AsyncExitStack) -> None:
        if options.nodes < HOT_EVERY + 1:
            raise DemoFailed(
                f"--nodes: got {options.nodes}, expected at least {HOT_EVERY + 1} to have hot and cool ones"
            )
        self.cluster = DemoCluster(options, folder, stack)
        within = CUSTOM_WAIT_SECONDS if options.is_customized else WAIT_SECONDS
        self._batch_resources = BatchResources(self.cluster, stack, within)
        self._to, self._stack = to, stack
        self._insists = not options.is_customized
        self._nodes = [f"node-{i:03d}" for i in range(options.nodes)]
        self._hot = [name for i, name in enumerate(self._nodes) if i % HOT_EVERY == HOT_EVERY // 2]
        self._began = time.perf_counter()

    async def tell(self) -> None:
        """Run all steps in order."""
        await self._step("A control plane, without Kubernetes", self.cluster.start_control_plane)
        await self._step("koordpy serves, and is registered", self.cluster.serve)
        await self._step(f"{len(self._nodes)} nodes, {len(self._hot)} of them hot", self._fill_cluster)
        await self._step("The SLO controllers turn usage into batch resources", self._offer_batch_resources)
        await self._step("Pods are created", self._create_pods)
        for title, step in (
            ("A gang is created, under a quota", self._create_gang),
            ("Nodes with GPUs join, and pods share them", self._create_accelerated),
        ):
            try:
                await self._step(title, step)
            except DemoFailed as failed:
                self._leave_out(failed)
        self._to.print()
        for show in (
            self._show_offer,
            self._show_admission,
            self._show_placement,
            self._show_gang,
            self._show_devices,
            self._show_relief,
        ):
            try:
                await show()
            except DemoFailed as failed:
                self._leave_out(failed)
        self._to.print(f"\n[bold green]The whole demo took {time.perf_counter() - self._began:.1f} s.[/]")

    def _leave_out(self, failed: DemoFailed) -> None:
        """Go on without what did not happen, where that may be how the user wants it. Raises `failed`."""
        if self._insists:
            raise failed
        self._to.print(f"[yellow]With this configuration:[/] {escape(str(failed))}", soft_wrap=True)

    async def _step(self, title: str, step: Callable[[], Any]) -> None:
        with self._to.status(title) if self._to.is_terminal else nullcontext():
            outcome = await step()
        self._to.print(f"[green]✓[/green] {title}: {outcome}")

    # --- steps -------------------------------------------------------------------------------------

    async def _fill_cluster(self) -> str:
        """Let the hot nodes join first: what makes them hot has no other nodes to run on."""
        objects = self.cluster.objects
        await objects.create_all(data.documents("demo", "objects.yaml"))
        await objects.create_all([workload.node(name) for name in self._hot])
        await objects.create(workload.crunch(workload.CRUNCH_PER_NODE * len(self._hot)))
        await self._until_running("shop", {"crunch"}, workload.CRUNCH_PER_NODE * len(self._hot))
        cool = [name for name in self._nodes if name not in self._hot]
        await objects.create_all([workload.node(name) for name in cool])
        await self.cluster.kubelets.report()
        await objects.create_all(services := workload.services(len(cool)))
        await self._until_running("shop", {each["metadata"]["name"] for each in services}, len(cool))
        await self.cluster.kubelets.report()
        usage = await self._usage()
        return (
            f"CPU usage from {min(usage.values()):.0%} to {max(usage.values()):.0%}; hot ones have few "
            "requests, so they seem free"
        )

    async def _offer_batch_resources(self) -> str:
        await self._batch_resources.start()
        offered = await self._batch_resources.offered(self._nodes)
        total, most = sum(offered.values()), max(offered, key=lambda name: offered[name])
        self._explained = await self._batch_resources.explained(most)
        hot = max(offered[name] for name in self._hot)
        return (
            f"{total:.0f} of {workload.NODE_CPU * len(self._nodes)} cores for batch pods, "
            f"up to {offered[most]:.1f} on a node that uses little, at most {hot:.1f} on hot ones"
        )

    async def _create_pods(self) -> str:
        self._submitted = workload.spark()
        await self.cluster.objects.create_all([*self._submitted, workload.web()])
        running = await self._until_running("analytics", {"spark"}, workload.SPARK_PODS)
        running += await self._until_running("shop", {"web"}, workload.ONLINE_PODS)
        self._placed = {(pod.metadata.namespace, pod.metadata.name): pod for pod in running}
        return f"{len(running)} pods, bound through the extender, and running"

    async def _create_gang(self) -> str:
        await self.cluster.objects.create(workload.training())
        running = await self._until_running("training", {"trainer"}, workload.TRAINERS)
        nodes = {pod.spec.node_name for pod in running}
        return f"{len(running)} pods, bound together, on {counted(len(nodes), 'node')}"

    async def _create_accelerated(self) -> str:
        await self.cluster.objects.create_all(accelerators.nodes())
        await self.cluster.kubelets.report()
        await self.cluster.objects.create_all(submitted := accelerators.pods())
        running = await self._until_running(accelerators.NAMESPACE, {"accelerated"}, len(submitted))
        self._accelerated = sorted(running, key=lambda pod: pod.metadata.name)
        return f"{len(running)} pods with CPUs, GPUs and network cards of {len(accelerators.NODES)} nodes"

    async def _until_running(self, namespace: str, apps: set[str], count: int) -> list[Pod]:
        """Return the pods with one of these labels `app` once so many run.

        With the user's configuration, which may leave pods pending on purpose, those that run after a while.
        Raises DemoFailed if too few run.
        """
        began, within = time.monotonic(), WAIT_SECONDS if self._insists else CUSTOM_WAIT_SECONDS
        named, told = ", ".join(sorted(apps)), False
        while True:
            pods = [
                pod
                for pod in await self.cluster.client.list_all(Pod, namespace=namespace)
                if pod.metadata.labels.get("app") in apps
            ]
            running = [pod for pod in pods if pod.status.phase == "Running"]
            if len(running) >= count:
                return running
            waited = time.monotonic() - began
            if waited > min(QUIET_SECONDS, within):
                so_far = f"{len(running)} of {count} pods of {named} run after {waited:.0f} s"
                waits = next((pod for pod in pods if not pod.spec.node_name), None)
                if waits is not None:
                    so_far += f"; pod {waits.metadata.key} is pending{_reason(waits)}"
                if not told:
                    told = True
                    self._to.print(f"  {escape(so_far)} (for {within:g} s at most)", soft_wrap=True)
                if waited > within:
                    if running and not self._insists:
                        return running
                    raise DemoFailed(so_far)
            await asyncio.sleep(0.1)

    # --- results -----------------------------------------------------------------------------------

    async def _show_offer(self) -> None:
        self._to.print("[bold]What a node offers to batch pods, and why[/bold]")
        colocate_explain.show(self._to, self._explained)
        self._to.print()

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
            raise DemoFailed(
                f"pod {'/'.join(key)} is pending{_reason(await self.cluster.client.get(Pod, *key))}"
            )
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
            f"\n[bold]Where the pods went[/bold]\n  {counted(len(self._placed), 'pod')} on {len(used)} of "
            f"{counted(len(self._nodes) - len(self._hot), 'cool node')}, none on "
            f"{counted(len(self._hot), 'hot one')}"
        )
        if not self._placed:
            raise DemoFailed("no pod was bound")
        # Batch pods find no batch resources on hot nodes; it is the other pods that these seem free to.
        namespace, name = next((key for key in self._placed if key[0] == "shop"), next(iter(self._placed)))
        found = await self._get(f"/apis/v1/decisions/{namespace}/{name}")
        why.show(self._to, found)
        if not why.rejected_by(found, "LoadAwareScheduling"):
            raise DemoFailed("LoadAwareScheduling refused no node: it did not keep pods off hot nodes")

    async def _show_gang(self) -> None:
        found = await self._get("/apis/v1/gangs/training/trainer")
        if len(found["members"]) != workload.TRAINERS:
            raise DemoFailed(f"gang training/trainer has {len(found['members'])} members")
        self._to.print("\n[bold]A gang[/bold]")
        gang.show_gang(self._to, found)
        self._to.print("\n[bold]The quotas[/bold]")
        quota.show_tree(self._to, await self._get("/apis/v1/quotas"))

    async def _show_devices(self) -> None:
        self._to.print("\n[bold]CPUs and devices[/bold]")
        for pod in self._accelerated:
            has = accelerators.described(pod)
            if not has:
                raise DemoFailed(f"pod {pod.metadata.key} has no CPUs and no devices of its own")
            self._to.print(f"  {pod.metadata.key} on {pod.spec.node_name}: {has}", soft_wrap=True)

    async def _show_relief(self) -> None:
        relief = Relief(
            self.cluster,
            self._stack,
            self._usage,
            self._hot,
            HOT_ABOVE,
            WAIT_SECONDS if self._insists else CUSTOM_WAIT_SECONDS,
        )
        with self._to.status("The descheduler works") if self._to.is_terminal else nullcontext():
            await relief.run()
        # A node that took several pods before its next report may be hot itself for a while, and a pod that
        # came there move on before its node was noted.
        targets = {move.target for move in relief.moves}
        strays = [move.pod for move in relief.moves if move.origin not in {*self._hot, *targets, ""}]
        if strays:
            raise DemoFailed(f"{len(strays)} pods of nodes that are not hot were moved, first {strays[0]}")
        show_relief(self._to, relief)

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
            "kubectl top nodes",
            "kubectl -n shop scale deployment web --replicas 30",
            "kubectl get clustercolocationprofiles,nodemetrics",
            f"{koordpy} doctor {shlex.join(self._doctor_options())}",
            f"{koordpy} audit",
            f"{koordpy} why {pod}{at}",
            f"{koordpy} why {pod} --history{at}",
            f"{koordpy} gang show training/trainer{at}",
            f"{koordpy} quota tree{at}",
            f"curl -s {debug}/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/{accelerators.NODES[0]}",
            f"curl -s {debug}/apis/v1/plugins/NodeNUMAResource/nodes/{accelerators.NODES[0]}",
            f"{koordpy} colocate explain {self._explained.node}",
            "kubectl get podmigrationjobs,reservations",
            *(
                (
                    f"{koordpy} descheduler rounds --debug-server {endpoints.worker}",
                    f"{koordpy} why --descheduling {self._hot[0]} --debug-server {endpoints.worker}",
                )
                if endpoints.worker
                else ()
            ),
            f"kubectl get pod -n {namespace} {name} -o json | {koordpy} whatif -f - --count 100{at}",
            f"curl -s '{debug}/apis/v1/decisions?limit=1' | {python} -m json.tool",
            f"curl -s {debug}/apis/v1/nodes/{self._hot[0]}",
            f"curl -s '{debug}/readyz?verbose'",
            f"{koordpy} profile explain {pod}",
            f"{koordpy} profile lint",
        ):
            self._to.print(f"  {escape(line)}", soft_wrap=True)
        self._to.print("Ctrl-C ends it.")

    def _doctor_options(self) -> list[str]:
        """Return the options with which the doctor knows what runs here, outside of the cluster."""
        descheduler = {"config": str(data.deploy("demo", "descheduler.yaml"))}
        controllers = {"selection": list(CONTROLLERS)}
        gates = dict.fromkeys(FEATURE_GATES, True)
        worker = {"descheduler": descheduler, "controllers": controllers, "featureGates": gates}
        return self.cluster.write_configuration(worker)

    # --- helpers -----------------------------------------------------------------------------------

    async def _usage(self) -> dict[str, float]:
        """Return the nodes' CPU usage, as fractions, as their koordlets report it."""
        found = {}
        for metric in await self.cluster.client.list_all(NodeMetric):
            used = metric.status.node_metric
            if used is not None:
                cpu = used.node_usage.resources.get("cpu", "0")
                found[metric.metadata.name] = quantity.milli_value(cpu) / 1000 / workload.NODE_CPU
        return found

    async def _get(self, path: str) -> Any:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.cluster.process.listeners['debug'].url}{path}")
        if answer.status_code != 200:
            raise DemoFailed(f"GET {path} answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()


def _reason(pod: Pod) -> str:
    """Return why a pod has no node, with a colon before it; empty where the scheduler has not said so yet."""
    told = [c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.message]
    return f": {told[0]}" if told else ""


def _defaulted(document: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as webhooks receive it: the API server sets these fields before it calls them."""
    result = copy.deepcopy(document)
    result["spec"] |= {
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return result
