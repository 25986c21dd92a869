"""A cluster with quotas, and the plugin over it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota as ElasticQuotaObject
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota


class World:
    """One plugin; each object that is put has a new resource version."""

    def __init__(self, args: dict[str, Any] | None = None, **gates: bool) -> None:
        self.clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
        self.cluster = Cluster(self.clock)
        self.plugin = self.another(args, **gates)
        self.trees = self.plugin.trees
        self._version = 0

    def another(self, args: dict[str, Any] | None = None, **gates: bool) -> ElasticQuota:
        """Return the plugin of another profile."""
        handle = Handle(self.cluster)
        handle.gates = FeatureGates(SPECS, gates)
        return ElasticQuota.make(handle, args)

    def put(self, kind: type[KubeObject], document: dict[str, Any]) -> Any:
        self._version += 1
        document["metadata"] = {
            "uid": f"uid-{document['metadata']['name']}",
            **document["metadata"],
            "resourceVersion": str(self._version),
        }
        made = decode(kind, document)
        self.cluster.store(kind).apply(made)
        return made

    def node(self, name: str, cpu: int) -> Node:
        found: Node = self.put(
            Node, {"metadata": {"name": name}, "status": {"allocatable": {"cpu": str(cpu)}}}
        )
        return found

    def quota(
        self,
        name: str,
        parent: str = "",
        *,
        least: int = 0,
        most: int = 100,
        notes: Mapping[str, str] | None = None,
        **labels: str,
    ) -> ElasticQuotaObject:
        """Put a quota of so many CPUs; `notes` are its annotations, without the prefix, like labels."""
        own = {f"quota.scheduling.koordinator.sh/{key.replace('_', '-')}": v for key, v in labels.items()}
        if parent:
            own[extension.LABEL_QUOTA_PARENT] = parent
        found: ElasticQuotaObject = self.put(
            ElasticQuotaObject,
            {
                "metadata": {
                    "name": name,
                    "namespace": "quotas",
                    "labels": own,
                    "annotations": {
                        f"quota.scheduling.koordinator.sh/{key}": value
                        for key, value in (notes or {}).items()
                    },
                },
                "spec": {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}},
            },
        )
        return found

    def pod(self, name: str, quota: str, cpu: int, *, node: str = "", **labels: str) -> Pod:
        found: Pod = self.put(Pod, pod_document(name, quota, cpu, node=node, **labels))
        return found

    def delete(self, pod: Pod) -> None:
        self.cluster.store(Pod).discard(pod.metadata.key)

    def filter(self, pod: Pod) -> Status:
        state = CycleState()
        self.plugin.before_pre_filter(state, pod)
        return self.plugin.pre_filter(state, pod, self.cluster.nodes.all())[1]

    def used(self, name: str) -> str:
        info = self.trees.quota(name)
        assert info is not None
        return str(info.used.get("cpu", 0))


def pod_document(name: str, quota: str, cpu: int, *, node: str = "", **labels: str) -> dict[str, Any]:
    own = {f"quota.scheduling.koordinator.sh/{key}": value for key, value in labels.items()}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {extension.LABEL_QUOTA_NAME: quota, **own},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
        },
    }
