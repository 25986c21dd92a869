"""The default selector of a pod: the pods of its Services and of its owner.

Source: Kubernetes, `framework/plugins/helper` (`DefaultSelector`).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from koordpy.api import label_selector
from koordpy.api.core import Pod, ReplicaSet, ReplicationController, Service, StatefulSet
from koordpy.api.label_selector import Requirement, Selector, SelectorError
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.store import Store
from koordpy.lib.bounded_cache import cached

_Workloads = Store[ReplicaSet] | Store[StatefulSet]


class DefaultSelectors:
    """Selectors by Services, ReplicationControllers, ReplicaSets and StatefulSets.

    These are followed from the first query on: many processes never make one.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def _stores(self) -> tuple[Store[Service], Store[ReplicationController], Mapping[str, _Workloads]]:
        late = self._cluster.late_store
        workloads: dict[str, _Workloads] = {"ReplicaSet": late(ReplicaSet), "StatefulSet": late(StatefulSet)}
        return late(Service), late(ReplicationController), workloads

    def of(self, pod: Pod) -> Selector:
        """Return a pod's default selector; an empty one if no Service and owner of it has a selector."""
        services, controllers, workloads = self._stores
        labels: dict[str, str] = {}
        for of_service in _service_selectors(services, pod):
            labels.update(of_service)
        owner = pod.metadata.controller
        requirements: tuple[Requirement, ...] = ()
        if owner is not None:
            namespace, name = pod.metadata.namespace, owner.name
            if owner.api_version == "v1" and owner.kind == "ReplicationController":
                controller = controllers.get(namespace, name)
                labels.update({} if controller is None else controller.spec.selector)
            elif owner.api_version == "apps/v1" and owner.kind in workloads:
                requirements = _requirements(workloads[owner.kind].get(namespace, name))
        return _selector((tuple(labels.items()), requirements))


@cached("default_selectors", 1 << 20)
def _selector(parts: tuple[tuple[tuple[str, str], ...], tuple[Requirement, ...]]) -> Selector:
    """Return the selector of labels and more requirements: the same one for all pods of a workload."""
    labels, requirements = parts
    return Selector((*label_selector.of_labels(dict(labels)).requirements, *requirements))


def _service_selectors(services: Store[Service], pod: Pod) -> Iterator[Mapping[str, str]]:
    """Yield the selectors of the Services that a pod belongs to."""
    by_place = services.index(_places)
    labels = pod.metadata.labels
    for key, value in labels.items():
        for service in by_place.get(_place(pod.metadata.namespace, key, value)):
            selector = service.spec.selector
            if all(labels.get(name) == wanted for name, wanted in selector.items()):
                yield selector


def _places(service: Service) -> Iterable[str]:
    for key, value in service.spec.selector.items():
        return (_place(service.metadata.namespace, key, value),)
    return ()


def _place(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


def _requirements(workload: ReplicaSet | None) -> tuple[Requirement, ...]:
    """Return the requirements of a workload's selector; none if it is absent or invalid."""
    if workload is None:
        return ()
    try:
        return label_selector.of(workload.spec.selector).requirements
    except SelectorError:
        return ()
