"""DeviceClass of `resource.k8s.io`: devices that kube-scheduler's plugin DynamicResources allocates.

Pods get such devices by resource claims, or by requesting the extended resource of a class like one of a
device plugin. Source: Kubernetes, `k8s.io/api/resource/v1`, and
`k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from .core import Pod
from .meta import KubeObject, Struct
from .resources import pod_fit_vector

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Every class has an extended resource of this prefix and its name, whatever its spec says."""


class DeviceClass(KubeObject):
    """A class of devices, with the extended resource that requests one."""

    class Spec(Struct):
        """The field that decides who allocates an extended resource."""

        extended_resource_name: str | None = None

    spec: Spec = msgspec.field(default_factory=Spec)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class of each extended resource; of several the newest, and then the first by name."""
    by_name = sorted(classes, key=lambda found: found.metadata.name)
    by_age = sorted(by_name, key=lambda found: found.metadata.creation_timestamp or "", reverse=True)
    found: dict[str, str] = {}
    for class_ in by_age:
        if name := class_.spec.extended_resource_name:
            found.setdefault(name, class_.metadata.name)
        found.setdefault(IMPLICIT_PREFIX + class_.metadata.name, class_.metadata.name)
    return found


def left_to_dynamic_resources(pod: Pod, class_of: Mapping[str, str]) -> str:
    """Return which devices of a pod kube-scheduler allocates, as a sentence; empty if none.

    `class_of` has the class of each extended resource that has one. Raises QuantityError.
    """
    parts = []
    if claims := pod.spec.resource_claims:
        noun = "claim" if len(claims) == 1 else "claims"
        parts.append(f"resource {noun} {', '.join(claim.name for claim in claims)}")
    requested = {name for name, amount in pod_fit_vector(pod).items() if amount}
    parts += [f"{name} (DeviceClass {class_of[name]})" for name in sorted(requested & class_of.keys())]
    if not parts:
        return ""
    return f"kube-scheduler's plugin DynamicResources, not koordpy, allocates {', '.join(parts)}"
