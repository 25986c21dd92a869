"""Refuse changes of what is allocated to a bound pod.

Schedulers know which CPUs and devices are taken from annotations that they write in the binding. Whoever may
change the annotations of a running pod could give away what its containers still use.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from koordpy.admission.handler import UPDATE, Errored, Request, ValidatingHandler
from koordpy.api import extension
from koordpy.api.core import Pod

_ALLOCATIONS: Final = (extension.ANNOTATION_DEVICE_ALLOCATED, extension.ANNOTATION_RESOURCE_STATUS)


class PodAllocationPlugin(ValidatingHandler):
    """The check of pod admission that allocations stay. Bindings are not updates of the pod."""

    name: ClassVar[str] = "PodAllocation"
    path: ClassVar[str] = "/validate-pod"
    feature: ClassVar[str | None] = "ProtectPodAllocation"

    def validate(self, request: Request) -> None:
        """Refuse an update that adds, changes or removes an allocation of a bound pod, until it has ended."""
        if request.operation != UPDATE:
            return
        old, new = request.old_object(Pod), request.object(Pod)
        if not old.spec.node_name or old.is_terminal:
            return
        changed = _changed(old.metadata.annotations, new.metadata.annotations)
        if changed:
            raise Errored(
                400,
                f"annotation {changed} of a bound pod is the scheduler's, and says what is in use: it cannot "
                "be changed before the pod has ended",
            )


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return the first allocation that differs, empty if none does."""
    return next((name for name in _ALLOCATIONS if old.get(name) != new.get(name)), "")
