"""Pods whose annotation replaces the resources in their spec.

A cluster that renames a resource (cpu of one kind of machine, say) annotates its pods instead of changing
them. Source: Koordinator, `pkg/util/transformer/pod_transformer.go` and `apis/extension/resource.go`.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from koordpy.lib.bounded_cache import cached

from . import extension
from .core import Container, Pod, ResourceRequirements
from .meta import ResourceList
from .quantity import Quantity, from_wire


def replaced(pod: Pod) -> Pod:
    """Return a pod with the resources that its annotation requests; the same pod if it requests none.

    A resource renamed to the empty name is removed. If the new name already exists, both stay as they are.
    Cpu becomes a whole number of thousandths. Renamings are applied in the order of their names. Pod-level
    resources are not changed.
    """
    renamings = _read(pod.metadata.annotations.get(extension.ANNOTATION_REPLACE_RESOURCES, ""))
    return with_renamed_resources(pod, renamings) if renamings else pod


def with_renamed_resources(pod: Pod, renamings: Mapping[str, str]) -> Pod:
    """Return a pod whose containers and overhead have other names for their resources, see `renamed`."""
    spec = replace(
        pod.spec,
        containers=[_container(item, renamings) for item in pod.spec.containers],
        init_containers=[_container(item, renamings) for item in pod.spec.init_containers],
        overhead=renamed(pod.spec.overhead, renamings),
    )
    return replace(pod, spec=spec)


def renamed(amounts: ResourceList, renamings: Mapping[str, str]) -> ResourceList:
    """Return amounts under other names; a name that becomes empty is removed, as in `replaced`."""
    result = {name: amount for name, amount in amounts.items() if renamings.get(name) != ""}
    for old, new in renamings.items():
        if new and old in result and new not in result:
            amount = result.pop(old)
            if old == extension.CPU:
                amount = str(Quantity.of(from_wire(amount).milli_value()))
            result[new] = amount
    return result


@cached("resource_renamings", 1 << 20)
def _read(text: str) -> Mapping[str, str]:
    """Read `from:to,from:to`; of several entries for one name the last counts."""
    renamings: dict[str, str] = {}
    for entry in text.split(","):
        parts = entry.split(":")
        if len(parts) == 2:
            renamings[parts[0].strip()] = parts[1].strip()
    return dict(sorted(renamings.items()))


def _container(container: Container, renamings: Mapping[str, str]) -> Container:
    resources = ResourceRequirements(
        requests=renamed(container.resources.requests, renamings),
        limits=renamed(container.resources.limits, renamings),
    )
    return replace(container, resources=resources)
