"""Give a new pod a scheduling gate for each PreEnqueue plugin that may refuse it.

kube-scheduler asks no plugin of an extender before it queues a pod; gates make it wait. They are removed by
the process that schedules. koord-scheduler runs these plugins itself, so Koordinator has no such handler.
"""

from typing import ClassVar, Final

from koordpy.admission.handler import CREATE, MutatingHandler, Request
from koordpy.api.core import Pod
from koordpy.api.document import Document

_GATES: Final = ("spec", "schedulingGates")
_SCHEDULER: Final = ("spec", "schedulerName")


class PreEnqueueGatesPlugin(MutatingHandler):
    """The last step of pod admission: what the handlers before it wrote decides which profile the pod has."""

    name: ClassVar[str] = "PreEnqueueGates"
    path: ClassVar[str] = "/mutate-pod"

    def mutate(self, request: Request, document: Document) -> None:
        """Add the gates that are missing."""
        gates_of = self.handle.pre_enqueue_gates
        if gates_of is None or request.operation != CREATE:
            return
        gates = gates_of(document.get(_SCHEDULER) or "", lambda: request.object(Pod))
        for gate in gates:
            document.append(_GATES, {"name": gate})
        if gates and request.explanation is not None:
            request.explanation.changed(document, "PreEnqueue plugins of the pod's scheduler profile")
