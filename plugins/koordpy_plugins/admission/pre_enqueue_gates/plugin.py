"""Add a scheduling gate to a new pod for each PreEnqueue plugin that may refuse it.

kube-scheduler does not call an extender before it queues a pod; gates make the pod wait. The extender removes
them. koord-scheduler runs these plugins itself, so Koordinator has no such handler.
"""

from typing import ClassVar, Final

from koordpy.admission.handler import CREATE, MutatingHandler, Request
from koordpy.api.core import Pod
from koordpy.api.document import Document

_GATES: Final = ("spec", "schedulingGates")
_SCHEDULER: Final = ("spec", "schedulerName")


class PreEnqueueGatesPlugin(MutatingHandler):
    """The last handler of pod admission: earlier handlers may change the pod's scheduler profile."""

    name: ClassVar[str] = "PreEnqueueGates"
    path: ClassVar[str] = "/mutate-pod"

    def mutate(self, request: Request, document: Document) -> None:
        """Add the missing gates."""
        gates_of = self.handle.pre_enqueue_gates
        if gates_of is None or request.operation != CREATE:
            return
        gates = gates_of(document.get(_SCHEDULER) or "", lambda: request.object(Pod))
        for gate in gates:
            document.append(_GATES, {"name": gate})
        if gates and request.explanation is not None:
            request.explanation.changed(document, "PreEnqueue plugins of the pod's scheduler profile")
