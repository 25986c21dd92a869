"""Specs of pods, compared with each other."""

import msgspec

from .core import PodSpec, Volume


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
