"""The service that keeps the node's topology current, and writes it to the API server when it changed."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from koordpy.agent.interface.facts import NODE_CPU_INFO, NODE_NUMA_INFO
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.gates import NODE_TOPOLOGY_REPORT
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.reports import TOPOLOGY_INTERVAL, TOPOLOGY_INTERVAL_HELP
from koordpy.agent.reporting import topology_zones
from koordpy.agent.reporting.kubelet_configuration import KubeletConfiguration
from koordpy.agent.reporting.kubelet_cpu_state import KubeletCPUs
from koordpy.agent.reporting.node_topology import MANAGED_ANNOTATIONS, NodeTopology, topology_of
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet import Kubelet
from koordpy.api.core import Node
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.needs import Right
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.retry import retried

log = logging.getLogger(__name__)

WITHOUT_KUBELET_FLAG: Final = "disable-query-kubelet-config"
_RESOURCE: Final = resource_of(NodeResourceTopology)
_STATE_FILE: Final = "cpu_manager_state"
_CONFIG_SECONDS: Final = 30.0
"""The age at which kubelet's configuration is asked for again; it changes only with a restart of kubelet."""

RIGHTS: Final = tuple(
    Right(verb, "noderesourcetopologies", "topology.node.k8s.io") for verb in ("get", "create", "update")
)
"""What it needs besides following the object."""


class TopologyReporter:
    """Computes the NodeResourceTopology of the node, and writes it where its gate is on."""

    name: Final = "node-topology"

    def __init__(
        self,
        handle: Handle,
        states: StatesInformer,
        *,
        kubelet_dir: Path = Path("/var/lib/kubelet"),
        kubelet: Kubelet | None = None,
        configuration: KubeletConfiguration | None = None,
    ) -> None:
        """Ask `kubelet` for its policies; without it they are those of its `configuration`."""
        self._handle, self._states = handle, states
        self._state_file = kubelet_dir / _STATE_FILE
        wanted = not handle.flags.boolean(WITHOUT_KUBELET_FLAG)
        self._asked = kubelet if wanted else None
        self._read = configuration if wanted else None
        self._config: dict[str, Any] = {}
        self._config_read = float("-inf")
        self._basis: tuple[object, ...] | None = None
        self._local: NodeTopology | None = None
        self._written: tuple[NodeTopology, str] | None = None
        """What was last found or written, with the resourceVersion of the object."""
        self._failure: str | None = "has not been computed yet"

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(TOPOLOGY_INTERVAL, timedelta(seconds=3), TOPOLOGY_INTERVAL_HELP)
        flags.declare(
            WITHOUT_KUBELET_FLAG,
            False,
            "do not ask kubelet, or its configuration files, for its CPU manager's policy",
        )

    async def run(self) -> None:
        """Report until cancelled; an interval of 0 or less switches it off."""
        interval = self._handle.flags.duration(TOPOLOGY_INTERVAL).total_seconds()
        if interval <= 0:
            self._failure = None
            await asyncio.Event().wait()
        while True:
            try:
                await self.sync()
            except (ApiError, ConnectionFailed, OSError, ValueError) as error:
                if self._failure != str(error):
                    log.warning("the topology of the node is not reported: %s", error)
                self._failure = str(error)
            await self._handle.sleep(interval)

    def not_ready(self) -> str | None:
        """Return None: a missing CRD or right to report must not stop the agent."""
        return None

    async def sync(self) -> None:
        """Compute the topology once, and write it if it differs. Raises ApiError, OSError or ValueError."""
        handle = self._handle
        node = handle.states.node()
        cpus, numa = handle.metrics.fact(NODE_CPU_INFO), handle.metrics.fact(NODE_NUMA_INFO)
        if node is None or cpus is None or numa is None:
            return
        basis = (node, cpus, numa, handle.states.pods(), await self._kubelet())
        topology = self._local
        if topology is None or basis != self._basis:
            topology = topology_of(*basis)
        self._basis = basis
        if topology != self._local:
            self._local = topology
            self._states.set_topology(decode(NodeResourceTopology, _updated(_new(node), topology)))
        if handle.client is not None and handle.gates.enabled(NODE_TOPOLOGY_REPORT):
            await self._report(node, topology)
        self._failure = None

    async def _kubelet(self) -> KubeletCPUs:
        if self._asked is None and self._read is None:
            return KubeletCPUs()
        now = self._handle.clock.monotonic()
        if now - self._config_read >= _CONFIG_SECONDS:
            if self._asked is not None:
                self._config = await self._asked.config()
            elif self._read is not None:
                self._config = self._read.read()
            self._config_read = now
        kubelet = KubeletCPUs(self._config)
        if self._config and not kubelet.is_static:
            return kubelet
        try:
            return KubeletCPUs(self._config, self._state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return kubelet

    async def _report(self, node: Node, topology: NodeTopology) -> None:
        seen = self._states.reported_topology()
        if seen is not None and self._written == (topology, seen.metadata.resource_version):
            return
        handle = self._handle
        await retried(lambda: self._write(node, topology), rng=handle.rng, sleep=handle.sleep)

    async def _write(self, node: Node, topology: NodeTopology) -> None:
        client = self._handle.client
        assert client is not None
        name = node.metadata.name
        try:
            document = await client.get_raw(_RESOURCE, "", name)
        except NotFound:
            document = await client.create_raw(_RESOURCE, "", _updated(_new(node), topology))
        else:
            if is_changed(document, topology):
                document = await client.update_raw(_RESOURCE, "", name, _updated(document, topology))
        self._written = (topology, document["metadata"].get("resourceVersion", ""))


def is_changed(document: dict[str, Any], topology: NodeTopology) -> bool:
    """Return whether an object differs in what the agent manages; annotations are compared as JSON."""
    metadata = document.get("metadata") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if document.get("topologyPolicies") != [topology.policy]:
        return True
    for name in MANAGED_ANNOTATIONS:
        if name not in annotations or _json(annotations[name]) != _json(topology.annotations[name]):
            return True
    if any(labels.get(name) != value for name, value in topology.labels.items()):
        return True
    return not topology_zones.equal(document.get("zones") or [], topology.zones)


def _updated(document: dict[str, Any], topology: NodeTopology) -> dict[str, Any]:
    metadata = dict(document["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **topology.annotations}
    metadata["labels"] = {**(metadata.get("labels") or {}), **topology.labels}
    zones = topology_zones.merged(document.get("zones") or (), topology.zones)
    return {**document, "metadata": metadata, "topologyPolicies": [topology.policy], "zones": zones}


def _new(node: Node) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": node.metadata.name,
            "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
            "ownerReferences": [owner],
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
