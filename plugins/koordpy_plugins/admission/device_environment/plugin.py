"""Tell containers which devices their pod has got, by environment variables.

Devices are chosen when a pod is bound, and its containers cannot be changed by then. But an annotation can,
and kubelet reads annotations when it creates a container. So admission gives the containers that request GPUs
or RDMA a variable that is read from an annotation, and the annotation a value that means no device;
DeviceShare replaces that value when it binds the pod. In Koordinator the runtime hooks of koordlet add the
variable: `pkg/koordlet/runtimehooks/hooks/gpu`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from koordpy.admission.handler import CREATE, Handle, MutatingHandler, Request
from koordpy.api import extension
from koordpy.api.document import Document, Path

from .args import DeviceEnvironmentArgs

_GPU_RESOURCES: Final = frozenset(
    (
        extension.GPU,
        extension.GPU_CORE,
        extension.GPU_MEMORY,
        extension.GPU_MEMORY_RATIO,
        extension.GPU_SHARED,
    )
)
_LISTS: Final = ("requests", "limits")
_CONTAINERS: Final = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of the containers that request one of some resources, and the annotation that it is from."""

    name: str
    annotation: str
    nothing: str
    resources: Collection[str]

    @property
    def wanted(self) -> dict[str, Any]:
        """The item of a container's `env`."""
        path = f"metadata.annotations['{self.annotation}']"
        return {"name": self.name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


class DeviceEnvironmentPlugin(MutatingHandler):
    """The device environment handler of pod admission."""

    name: ClassVar[str] = "DeviceEnvironment"
    path: ClassVar[str] = "/mutate-pod"
    feature: ClassVar[str | None] = "PodDeviceEnvironment"
    args: DeviceEnvironmentArgs

    def __init__(self, args: DeviceEnvironmentArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        every = (
            _Variable(
                args.gpu_variable,
                extension.ANNOTATION_GPU_MINORS,
                extension.NO_GPU_MINORS,
                _GPU_RESOURCES,
            ),
            _Variable(args.rdma_variable, extension.ANNOTATION_RDMA_ADDRESSES, "", (extension.RDMA,)),
        )
        self._variables = [variable for variable in every if variable.name]

    def mutate(self, request: Request, document: Document) -> None:
        """Add the variables to the containers that request devices, init containers too, and the annotations.

        A variable of that name is replaced, as the runtime hooks replace it. `nvidia.com/gpu` and the like
        are left to the device plugin, which sets the variable itself.
        """
        if request.operation != CREATE:
            return
        for variable in self._variables:
            containers = list(_requesting(document, variable.resources))
            for container in containers:
                _put(document, container, variable.wanted)
            if containers:
                document.set(("metadata", "annotations", variable.annotation), variable.nothing)


def _requesting(document: Document, resources: Collection[str]) -> Iterator[Path]:
    """Yield the places of the containers that request one of some resources."""
    for field in _CONTAINERS:
        for position, container in enumerate(document.get(("spec", field), ())):
            lists = (container or {}).get("resources") or {}
            if any(not set(resources).isdisjoint(lists.get(name) or ()) for name in _LISTS):
                yield ("spec", field, position)


def _put(document: Document, container: Path, wanted: dict[str, Any]) -> None:
    """Give a container a variable, in the place of the last one of that name, which counts, or at the end."""
    env = (*container, "env")
    places = [
        place
        for place, variable in enumerate(document.get(env, ()))
        if variable and variable.get("name") == wanted["name"]
    ]
    if places:
        document.set((*env, places[-1]), wanted)
    else:
        document.append(env, wanted)
