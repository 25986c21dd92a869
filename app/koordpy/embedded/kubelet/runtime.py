"""What pods do on their nodes, and what follows from it: the part in which a demo and a simulation differ."""

from typing import Any, Protocol

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client

from .plan import PodPlan, plan_of

Document = dict[str, Any]
_POD = resource_of(Pod)


class Runtime(Protocol):
    """Decides what pods do. `started` and `stopped` are called once for each pod that ran."""

    async def plan(self, pod: Pod) -> tuple[PodPlan, Document] | None:
        """Return the plan of a pod and the status that an earlier kubelet wrote; None: it is not run here."""
        ...

    def started(self, pod: Pod) -> None:
        """Handle a pod that begins to run."""
        ...

    def stopped(self, pod: Pod) -> None:
        """Handle a pod that runs no longer."""
        ...

    async def finished(self, pod: Pod) -> bool:
        """Handle a pod that ended by itself; return whether its status need not be reported."""
        ...


class DocumentRuntime:
    """Pods do what their commands and annotations say; see `plan` and `annotations`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def plan(self, pod: Pod) -> tuple[PodPlan, Document]:
        """Read the whole pod: the struct has no commands."""
        document = await self._client.get_raw(_POD, pod.metadata.namespace, pod.metadata.name)
        return plan_of(document), document.get("status") or {}

    def started(self, pod: Pod) -> None:
        """Nothing depends on it."""

    def stopped(self, pod: Pod) -> None:
        """Nothing depends on it."""

    async def finished(self, pod: Pod) -> bool:
        """Have the kubelet report it."""
        return False
