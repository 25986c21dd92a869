"""The points between the choice of a node and the pod being bound there."""

from dataclasses import dataclass, field

from koordpy.api.core import Pod

from .cycle_state import CycleState
from .status import Status


class ResizePod:
    """May change what the pod requests once its node is known, before it is assumed."""

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        """Return the pod to continue with (the same one, or a changed copy); a failure ends the attempt."""
        raise NotImplementedError


class Reserve:
    """The commit point: the only point that allocates. Two attempts never get the same resource.

    Beside kube-scheduler it runs in the bind call, or before the next filter call if filter has answered a
    single node. Then Unreserve also runs if the bind call does not come: within 30 s, at the pod's next
    filter call, and when the pod is deleted.
    """

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate what the pod needs, validating what Filter saw; a failure ends the attempt."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release it. Called for every Reserve plugin in reverse order, also for those never reached."""
        raise NotImplementedError


class Permit:
    """The last decision before binding, and the only point that may make a pod wait."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Return Success, a rejection, or `Status.wait(seconds)`.

        A waiting pod proceeds when every plugin that made it wait has allowed it through
        `handle.waiting_pods`; the first rejection or timeout ends it. Waits are capped at 15 minutes.
        """
        raise NotImplementedError


@dataclass(slots=True)
class Binding:
    """What will be written to a pod, or to the Reservation of a reserve pod.

    Annotations travel with the node in one write. Labels, which a Binding carries only behind a gate of the
    API server, take one more write just before: a patch of those that differ. It is reverted if the pod is
    not bound. A plugin that sets labels declares the right to get and patch pods. The same holds for
    annotations that the pod has and must not keep: `dropped` names them. `remarks` are sentences for the
    record of the decision (`koordpy why`), written nowhere: who chose what was allocated, say.
    """

    pod: Pod
    node_name: str
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)


class PreBind:
    """Prepares the binding: adds annotations and labels to it, or writes other objects."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


class Bind:
    """Binds the pod. The first plugin that does not skip binds it."""

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Return Success, Skip, or a failure that ends the attempt."""
        raise NotImplementedError


class PostBind:
    """Called when a pod is bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Clean up, or record it."""
        raise NotImplementedError
