"""Specs of pods, compared with each other."""

import msgspec

from .core import PodSpec, ResourceRequirements, Volume

_NO_RESOURCES = ResourceRequirements()


def without_volume_names(spec: PodSpec) -> PodSpec:
    """Return a spec without the volumes known by name only: every pod of a workload may have another name."""
    if not spec.volumes:
        return spec
    return msgspec.structs.replace(spec, volumes=[volume for volume in spec.volumes if _is_more(volume)])


def _is_more(volume: Volume) -> bool:
    """Return whether a volume has more than its name."""
    return (
        volume.image is not None
        or volume.persistent_volume_claim is not None
        or volume.host_path is not None
        or volume.empty_dir is not None
    )


def without_requests(spec: PodSpec) -> PodSpec:
    """Return a spec without the requests and limits of its containers, of the pod, and its overhead."""
    replace = msgspec.structs.replace
    return replace(
        spec,
        containers=[replace(each, resources=_NO_RESOURCES) for each in spec.containers],
        init_containers=[replace(each, resources=_NO_RESOURCES) for each in spec.init_containers],
        resources=None,
        overhead={},
    )


def requests_of(spec: PodSpec) -> tuple[object, ...]:
    """Return what `without_requests` leaves out."""
    containers = [each.resources for each in spec.containers]
    return containers, [each.resources for each in spec.init_containers], spec.resources, spec.overhead
