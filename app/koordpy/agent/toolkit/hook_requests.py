"""The requests of runtime hooks for the pods, containers and directories of a node, and what is written.

Source: Koordinator, `pkg/koordlet/runtimehooks/protocol` (`FromReconciler`, `ReconcilerDone`).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koordpy.agent.interface.cgroups import Cgroups, Update
from koordpy.agent.interface.hook import (
    ContainerRequest,
    HookError,
    HostApplicationRequest,
    KubeQOSRequest,
    NativeResources,
    PodRequest,
    Request,
    Response,
)
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.toolkit import cpu_values, pod_cgroups
from koordpy.api import extended_resource_spec, extension, quantity, resources
from koordpy.api.core import Container, Pod
from koordpy.api.extended_resource_spec import Amounts, Containers, ContainerSpec
from koordpy.api.meta import ResourceList
from koordpy.api.qos import QoSClass
from koordpy.api.slo.host_application import HostApplicationSpec

log = logging.getLogger(__name__)

KATA = "kata"
"""The runtime class of pods whose containers have no cgroups on the node."""

REASON = "runtime-hooks"

_BATCH = (extension.BATCH_CPU, extension.BATCH_MEMORY)


@dataclass(frozen=True)
class PodRequests:
    """The requests of one pod.

    `running` are its main containers by status, whether the spec has them or not; `containers` are those
    that reconciliation covers: also init containers, none without a spec, and none of a kata pod.
    """

    pod: PodRequest
    running: tuple[ContainerRequest, ...]
    containers: tuple[ContainerRequest, ...]


def of_pod(meta: PodMeta, layout: CgroupLayout) -> PodRequests:
    """Return the requests of a pod, without its sandbox."""
    pod = meta.pod
    annotated = _annotated_batch(pod.metadata.annotations, pod.metadata.key)
    request = PodRequest(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        pod.metadata.labels,
        pod.metadata.annotations,
        meta.cgroup_dir,
        _native_of_pod(pod),
        _spec_batch(pod) or annotated,
    )
    status = pod.status
    running = tuple(
        _container(item.name, pod, request, annotated, layout) for item in status.container_statuses
    )
    init = tuple(
        _container(item.name, pod, request, annotated, layout) for item in status.init_container_statuses
    )
    if pod.spec.runtime_class_name == KATA:
        return PodRequests(request, running, ())
    specs = {item.name for item in (*pod.spec.containers, *pod.spec.init_containers)}
    return PodRequests(request, running, tuple(item for item in (*running, *init) if item.name in specs))


def sandbox(meta: PodMeta, request: PodRequest, layout: CgroupLayout, cgroups: Cgroups) -> ContainerRequest:
    """Return the request of a pod's sandbox; it has no cgroup directory if that is not certain yet."""
    directory = pod_cgroups.sandbox(meta, layout, cgroups)
    if directory is None:
        return ContainerRequest(request, "", is_sandbox=True)
    runtime = meta.pod.status.container_statuses[0].container_id.partition("://")[0]
    identifier = f"{runtime}://{_identifier(directory)}"
    return ContainerRequest(request, "", identifier, directory, is_sandbox=True)


def kube_qos(layout: CgroupLayout, qos: str) -> KubeQOSRequest:
    """Return the request of a Kubernetes QoS class."""
    return KubeQOSRequest(qos, layout.qos(qos))


def host_application(layout: CgroupLayout, application: HostApplicationSpec) -> HostApplicationRequest:
    """Return the request of a host application."""
    return HostApplicationRequest(application.name, application.qos, layout.host_application(application))


def annotated_batch(annotations: Mapping[str, str]) -> Containers | None:
    """Return the batch resources that the annotation names; None where it is missing or broken."""
    return _annotated_batch(annotations, "")


def reconciled_qos(pod: PodRequest) -> QoSClass:
    """Return the class by which reconcilers are chosen: a pod without one that got CPUs counts as LSR."""
    if pod.qos is QoSClass.NONE and pod.annotations:
        try:
            if pod.resource_status().cpuset:
                return QoSClass.LSR
        except HookError:
            pass
    return pod.qos


def updates(request: Request, response: Response, reason: str = REASON) -> list[Update]:
    """Return what reconciliation writes for a response: nothing without a directory, and no empty cpuset."""
    if not request.cgroup_dir:
        return []
    return [
        Update(resource, request.cgroup_dir, str(value), reason, response.formulas.get(resource, ""))
        for resource, value in response.values.items()
        if value != ""
    ]


# --- batch and native resources ------------------------------------------------------------------


def _annotated_batch(annotations: Mapping[str, str], key: str) -> Containers | None:
    text = annotations.get(extension.ANNOTATION_EXTENDED_RESOURCE_SPEC)
    if text is None:
        return None
    try:
        return extended_resource_spec.parse(text)
    except ValueError as error:
        log.info("pod %s: annotation %s: %s", key, extension.ANNOTATION_EXTENDED_RESOURCE_SPEC, error)
        return None


def _spec_batch(pod: Pod) -> Containers | None:
    found = {}
    for container in pod.spec.containers:
        batch = _container_batch(container)
        if batch is not None:
            found[container.name] = batch
    return found or None


def _container_batch(container: Container) -> ContainerSpec | None:
    limits, requests = _amounts(container.resources.limits), _amounts(container.resources.requests)
    return ContainerSpec(limits, requests) if limits or requests else None


def _amounts(amounts: ResourceList) -> Amounts:
    return {name: quantity.from_wire(amounts[name]) for name in _BATCH if name in amounts}


def _native_of_pod(pod: Pod) -> NativeResources:
    requests, limits = resources.pod_requests(pod), resources.pod_limits(pod)
    cpu, limit, memory = requests.get("cpu"), limits.get("cpu"), limits.get("memory")
    return _native(
        0 if cpu is None else cpu.milli_value(),
        0 if limit is None else limit.milli_value(),
        0 if memory is None else memory.value(),
    )


def _native_of_container(container: Container) -> NativeResources:
    requests, limits = container.resources.requests, container.resources.limits
    return _native(
        quantity.milli_value(requests.get("cpu", 0)),
        quantity.milli_value(limits.get("cpu", 0)),
        quantity.value(limits.get("memory", 0)),
    )


def _native(milli_request: int, milli_limit: int, memory: int) -> NativeResources:
    return NativeResources(
        cpu_values.shares(milli_request), cpu_values.quota(milli_limit), memory if memory > 0 else -1
    )


# --- containers ----------------------------------------------------------------------------------


def _container(
    name: str, pod: Pod, request: PodRequest, annotated: Containers | None, layout: CgroupLayout
) -> ContainerRequest:
    """Return the request of a container by name; main containers take precedence over init containers."""
    status = next((item for item in pod.status.container_statuses if item.name == name), None)
    candidates = pod.spec.containers if status is not None else pod.spec.init_containers
    if status is None:
        status = next((item for item in pod.status.init_container_statuses if item.name == name), None)
    if status is None or not status.container_id:
        return ContainerRequest(request, name)
    try:
        directory = layout.container(request.cgroup_dir, status.container_id)
    except ValueError:
        directory = ""
    spec = next((item for item in candidates if item.name == name), None)
    own = None if spec is None else _container_batch(spec)
    return ContainerRequest(
        request,
        name,
        status.container_id,
        directory,
        native=None if spec is None else _native_of_container(spec),
        batch=own if own is not None else (annotated or {}).get(name),
    )


def _identifier(directory: str) -> str:
    """Return the id in the name of a container's directory: all after the last prefix of a runtime."""
    return directory.rpartition("/")[2].removesuffix(".scope").rpartition("-")[2]


def each(metas: list[PodMeta], layout: CgroupLayout) -> Iterator[tuple[PodMeta, PodRequests]]:
    """Yield pods with their requests, but for those whose amounts cannot be read."""
    for meta in metas:
        try:
            requests = of_pod(meta, layout)
        except ValueError as error:
            log.warning("pod %s: %s", meta.pod.metadata.key, error)
            continue
        yield meta, requests
