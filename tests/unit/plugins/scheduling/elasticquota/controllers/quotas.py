"""Quotas in memory, for tests of their controllers."""

from datetime import UTC, datetime
from typing import Any

from koordpy.api import extension, json_merge
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import KubeObject
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.gates import scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.elasticquota.state.settings import QuotaSettings
from koordpy_plugins.scheduling.elasticquota.state.trees import QuotaTrees

PREFIX = "quota.scheduling.koordinator.sh/"
MAX = {"cpu": "100", "memory": "100Gi", "example.com/gpu": "100"}


class Quotas:
    """A cluster in memory with quotas, and a client that takes writes down and shows them."""

    def __init__(self, **args: Any) -> None:
        self.clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
        self.cluster = Cluster(clock=self.clock)
        self.args = ElasticQuotaArgs(**args)
        settings = QuotaSettings.of(self.args, scheduling_gates())
        self.trees = self.cluster.shared(QuotaTrees, settings)
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.created: list[dict[str, Any]] = []
        self.evicted: list[str] = []
        self.error: ApiError | None = None
        self.handle = Handle(self.cluster, client=self)  # type: ignore[arg-type]
        self._documents: dict[str, dict[str, Any]] = {}

    def node(self, name: str = "n", **amounts: str) -> None:
        document = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
        self.cluster.store(Node).put(decode(Node, document))

    def quota(
        self,
        name: str,
        *,
        parent: str = "",
        is_parent: bool = False,
        min: dict[str, str] | None = None,
        max: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **labels: str,
    ) -> None:
        found = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
        if parent:
            found[extension.LABEL_QUOTA_PARENT] = parent
        found[extension.LABEL_QUOTA_IS_PARENT] = "true" if is_parent else "false"
        self.put(
            {
                "metadata": {
                    "name": name,
                    "namespace": "d",
                    "labels": found,
                    "annotations": {f"{PREFIX}{key}": text for key, text in (annotations or {}).items()},
                },
                "spec": {"min": min or {}, "max": max or MAX},
            }
        )

    def put(self, document: dict[str, Any]) -> None:
        quota = decode(ElasticQuota, document)
        self._documents[quota.metadata.key] = document
        self.cluster.store(ElasticQuota).put(quota)

    def pod(
        self, name: str, quota: str, *, node: str = "n", priority: int = 0, cpu: str = "0", **more: Any
    ) -> Pod:
        requests = {"cpu": cpu, **more.get("requests", {})}
        document = {
            "metadata": {
                "name": name,
                "namespace": "d",
                "uid": name,
                "resourceVersion": more.get("version", "1"),
                "labels": {extension.LABEL_QUOTA_NAME: quota, **more.get("labels", {})},
                **more.get("metadata", {}),
            },
            "spec": {
                "nodeName": node,
                "priority": priority,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running", **more.get("status", {})},
        }
        pod = decode(Pod, document)
        self.cluster.store(Pod).put(pod)
        return pod

    def stored(self, name: str) -> ElasticQuota:
        found = self.cluster.store(ElasticQuota).get("d", name)
        assert found is not None
        return found

    def annotation(self, name: str, key: str) -> str | None:
        return self.stored(name).metadata.annotations.get(f"{PREFIX}{key}")

    # -- the writes of a client ---------------------------------------------------------------------------

    async def patch(self, type_: type[KubeObject], namespace: str, name: str, patch: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.patches.append((name, patch))
        self.put(json_merge.apply(self._documents[f"{namespace}/{name}"], patch))

    async def create_raw(self, resource: Any, namespace: str, document: dict[str, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.created.append(document)
        self.put(document)

    async def evict(self, pod: Pod) -> None:
        if self.error is not None:
            raise self.error
        self.evicted.append(pod.metadata.name)
