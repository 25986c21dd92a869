"""TerwayQoS: tell Terway's network plugin the bandwidths of a node's classes and pods, in two files.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/terwayqos`.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from koordpy.agent.interface import CallbackTarget, FlagSet, Handle, PodMeta, StateType
from koordpy.agent.interface.hook import OFF, Hook, Rule
from koordpy.api.extension import LABEL_POD_QOS
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.feature_gates import FeatureSpec

from . import bandwidth

log = logging.getLogger(__name__)

FOLDER_FLAG: Final = "terway-qos-dir"
NODE_FILE: Final = "global_bps_config"
POD_FILE: Final = "pod.json"
_PRIORITIES: Final = {"SYSTEM": 0, "LSE": 1, "LSR": 1, "LS": 1, "BE": 2}
_KUBE_PRIORITIES: Final = {"Guaranteed": 1, "Burstable": 1, "BestEffort": 2}


class TerwayQoS(Hook):
    """The hook. The files are those of another program, so that they are no part of what can be undone."""

    name: ClassVar[str] = "TerwayQoS"
    feature: ClassVar[str | None] = "TerwayQoS"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"TerwayQoS": OFF}
    needs: ClassVar[Needs] = Needs(
        elsewhere=("Terway with QoS on the node", "NodeSLOs with the netQOSPolicy terway-qos"),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.TERWAY,
                purpose="the files that Terway reads",
                without="they cannot be written, and the log says so",
            ),
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.enabled: bool | None = None
        self._node = bandwidth.NodeBandwidth()
        self._written: dict[str, str] = {}

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the folder."""
        flags.declare(FOLDER_FLAG, "/host-var-lib/terway/qos", "the folder of the files that Terway reads")

    def rules(self) -> Sequence[Rule]:
        """The network QoS of the NodeSLO, and all pods."""
        return (
            Rule(f"{self.name} (nodeQoS)", StateType.NODE_SLO_SPEC, self.read_slo, self.write),
            Rule(f"{self.name} (allPods)", StateType.ALL_PODS, self._wants_pods, self.write),
        )

    def _wants_pods(self, _: Any) -> bool:
        return self.enabled is True

    def read_slo(self, slo: NodeSLOSpec) -> bool:
        """Read the policy and the bandwidths. Raises ValueError, and keeps the old ones."""
        enabled = bandwidth.is_enabled(slo)
        node = bandwidth.of_node(slo) if enabled else bandwidth.NodeBandwidth()
        changed = (enabled, node) != (self.enabled, self._node)
        self.enabled, self._node = enabled, node
        return changed

    def write(self, target: CallbackTarget) -> None:
        """Write both files where they changed, or remove them if another policy holds. Raises OSError."""
        folder = Path(self.handle.flags.text(FOLDER_FLAG))
        if not self.enabled:
            for name in (NODE_FILE, POD_FILE):
                (folder / name).unlink(missing_ok=True)
            self._written.clear()
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._replace(folder / NODE_FILE, self._node.text())
        self._replace(folder / POD_FILE, self._pods(target.pods))

    def _pods(self, metas: Sequence[PodMeta]) -> str:
        found = {}
        for meta in sorted(metas, key=lambda meta: meta.pod.metadata.key):
            pod = meta.pod
            try:
                ingress, egress = bandwidth.of_pod(pod.metadata.annotations)
            except ValueError as error:
                log.info("%s: pod %s: %s", self.name, pod.metadata.key, error)
                continue
            label = pod.metadata.labels.get(LABEL_POD_QOS, "")
            found[pod.metadata.uid] = {
                "podName": pod.metadata.name,
                "podNamespace": pod.metadata.namespace,
                "podUID": pod.metadata.uid,
                "prio": _PRIORITIES.get(label, _KUBE_PRIORITIES.get(pod.status.qos_class, 0)),
                "cgroupDir": f"/sys/fs/cgroup/net_cls/{meta.cgroup_dir}",
                "qosConfig": {"ingressBandwidth": ingress, "egressBandwidth": egress},
            }
        return msgspec.json.encode(found).decode()

    def _replace(self, file: Path, text: str) -> None:
        """Replace a file as a whole, so that Terway never reads a part."""
        if self._written.get(file.name) == text and file.exists():
            return
        new = file.with_name(f".{file.name}.new")
        new.write_text(text)
        os.replace(new, file)
        self._written[file.name] = text
        log.info("%s: wrote %s", self.name, file)
