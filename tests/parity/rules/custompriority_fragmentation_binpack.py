"""One cycle of CustomPriority, FragmentationAware or ScaleDownBinPack: `koordpy_plugins.descheduling`."""

import asyncio
import json
from typing import Any

from pydantic import ConfigDict

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.config.configuration import PluginConfig, Plugins, Profile
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.framework import GROUP, Framework, Runtime
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.descheduling.interface import EvictOptions, EvictPlugin, FilterPlugin, Handle, Plugin
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import SystemClock
from koordpy.lib.http1 import Response
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.custompriority.plugin import CustomPriority
from koordpy_plugins.descheduling.fragmentationaware.plugin import FragmentationAware
from koordpy_plugins.descheduling.scaledownbinpack.plugin import ScaleDownBinPack

_RUNNER = asyncio.Runner()
_PLUGINS = (CustomPriority, FragmentationAware, ScaleDownBinPack)
_COST = "controller.kubernetes.io/pod-deletion-cost"


class Script(PluginArgs):
    """What of a case is about evictions."""

    model_config = ConfigDict(extra="ignore")

    not_evictable: list[str]
    pre_eviction_rejects: list[str]
    evict_fails: list[str]


class ScriptedEvictor(EvictPlugin, FilterPlugin):
    """Filters and evicts as the case says, and remembers every call."""

    name = "ScriptedEvictor"
    args: Script

    def __init__(self, args: Script, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[list[Any]] = []

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.key not in self.args.not_evictable

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return pod.metadata.key not in self.args.pre_eviction_rejects

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        success = pod.metadata.key not in self.args.evict_fails
        self.calls.append([pod.metadata.key, success, options.reason])
        return success


class Writes(ServerChannel):
    """The transport to an API server that remembers what was patched."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.writes: list[list[Any]] = []

    async def request(self, method: str, path: str, *, body: bytes = b"", **more: Any) -> Response:
        if method == "PATCH":
            patch = json.loads(body)
            parts = path.split("?")[0].split("/")
            if "nodes" in parts:
                self.writes.append(["unschedulable", parts[-1], patch["spec"]["unschedulable"]])
            else:
                cost = patch["metadata"]["annotations"][_COST]
                self.writes.append(["deletionCost", f"{parts[-3]}/{parts[-1]}", cost])
        return await super().request(method, path, body=body, **more)


def run(case: dict[str, Any], tag: str | None) -> object:
    return _RUNNER.run(_run(case))


async def _run(case: dict[str, Any]) -> object:
    cluster = Cluster(SystemClock())
    server = ApiServer(crds=[])
    channel = Writes(server)
    client = Client(channel)
    for document in case["nodes"]:
        cluster.store(Node).apply(decode(Node, document))
    for document in case["pods"]:
        cluster.store(Pod).apply(decode(Pod, document))
    if case["args"].get("autoCordon"):
        for document in case["nodes"]:
            await client.create_raw(resource_of(Node), "", document)
    elif case["plugin"] == "ScaleDownBinPack":
        for namespace in {document["metadata"]["namespace"] for document in case["pods"]}:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        for document in case["pods"]:
            name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
            whole = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
            await client.create_raw(resource_of(Pod), namespace, whole)
    profile = Profile(
        name="parity",
        plugins=Plugins(
            balance=PluginSet.of([case["plugin"]]),
            evict=PluginSet.of(["ScriptedEvictor"]),
            filter=PluginSet.of(["ScriptedEvictor"]),
        ),
        plugin_config=[
            PluginConfig(name=case["plugin"], args=case["args"]),
            PluginConfig(name="ScriptedEvictor", args=case),
        ],
    )
    runtime = Runtime(cluster, client, None, EvictionLimiter(), Decisions(), dry_run=case["frameworkDryRun"])
    try:
        framework = Framework(profile, Catalogue.of(GROUP, Plugin, [*_PLUGINS, ScriptedEvictor]), runtime)
    except ConfigError:
        return {"invalid": True}
    evictor = framework.evict_plugin
    assert isinstance(evictor, ScriptedEvictor)
    status = await framework.run_balance_plugins([decode(Node, document) for document in case["nodes"]])
    found: dict[str, Any] = {"evictions": evictor.calls, "writes": channel.writes}
    plugin = framework.balance_plugins[0]
    if isinstance(plugin, ScaleDownBinPack):
        found["ranked"] = [
            [pod.metadata.key, node.node.metadata.name] for node in plugin.ranking for pod in node.pods
        ]
    if status.error:
        found["err"] = True
    return found
