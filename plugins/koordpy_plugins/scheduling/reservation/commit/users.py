"""Which reservation a pod uses, as the API server has it: an annotation of the pod."""

from koordpy.api import extension
from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.cluster.retry import retried
from koordpy.scheduling.interface.handle import Handle


class ReservationUsers:
    """Reads the annotation as the cluster view has it, and writes it."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._pods = handle, handle.cluster.store(Pod)

    def live(self, pod: Pod) -> Pod | None:
        """Return a pod as it is now, None if it is gone."""
        live = self._pods.get(pod.metadata.namespace, pod.metadata.name)
        return live if live is not None and live.metadata.uid == pod.metadata.uid else None

    def uses(self, pod: Pod, uid: str) -> bool:
        """Return whether a pod is known to be bound, to any node, and in a reservation."""
        live = self.live(pod)
        if live is None or not live.spec.node_name:
            return False
        used = annotations.allocated(live.metadata.annotations)
        return used is not None and used.uid == uid

    async def write(self, pod: Pod, text: str | None) -> None:
        """Set the annotation, or remove it. Raises ApiError, ConnectionFailed; there must be a client."""
        client, meta = self._handle.client, pod.metadata
        assert client is not None
        annotations = {extension.ANNOTATION_RESERVATION_ALLOCATED: text}
        patch = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        await retried(lambda: client.patch(Pod, meta.namespace, meta.name, patch), rng=self._handle.rng)
