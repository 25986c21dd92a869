"""DefaultEvictor: evict pods through the eviction API, and decide which pods may be evicted.

The replacement of an evicted pod is scheduled only after the pod is deleted. Source:
`sigs.k8s.io/descheduler`, `pkg/framework/plugins/defaultevictor`, as Koordinator uses it.
"""

import logging

from koordpy.api import label_selector
from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.needs import Needs, Right
from koordpy.descheduling.interface import EvictOptions, EvictPlugin, FilterPlugin, Handle, Refusal
from koordpy.descheduling.pod_evictor import PodEvictor
from koordpy.descheduling.toolkit import evictability, nodes
from koordpy.descheduling.toolkit.upstream_node_fit import UpstreamNodeFit

from .args import DefaultEvictorArgs
from .constraints import constraints

log = logging.getLogger(__name__)


class DefaultEvictor(EvictPlugin, FilterPlugin):
    """Evict and filter."""

    name = "DefaultEvictor"
    needs = Needs(rights=(Right("create", "pods/eviction"),))
    args: DefaultEvictorArgs

    def __init__(self, args: DefaultEvictorArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._constraints = constraints(args, handle.cluster)
        self._evictor = None if handle.client is None else PodEvictor(handle.client, handle.events)
        self._nodes = handle.cluster.store(Node)
        self._node_selector = label_selector.parse(args.node_selector)
        self._node_fit = UpstreamNodeFit(handle.pods) if args.node_fit else None
        selector = args.namespace_label_selector
        # Without matchLabels the selector is ignored, as upstream.
        self._namespace_selector = (
            label_selector.of(selector) if selector is not None and selector.match_labels else None
        )
        self._namespaces = handle.cluster.store(Namespace) if self._namespace_selector else None

    def reasons_against(self, pod: Pod) -> list[str]:
        """Return the reasons why a pod may not be evicted, empty if it may."""
        if evictability.is_asked_for(pod):
            return []
        return [reason for reason in (check(pod) for check in self._constraints) if reason is not None]

    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted."""
        if evictability.is_asked_for(pod):
            return True
        reason = next((reason for check in self._constraints if (reason := check(pod)) is not None), None)
        if reason is not None:
            log.debug("pod %s may not be evicted: %s", pod.metadata.key, reason)
        return reason is None

    def reason_against(self, pod: Pod) -> str | None:
        """Return all reasons why a pod may not be evicted, joined; None if it may."""
        return "; ".join(self.reasons_against(pod)) or None

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether the pod's namespace is selected and, with nodeFit, the pod fits another node."""
        if not self._is_namespace_selected(pod):
            return False
        if self._node_fit is None:
            return True
        candidates = (
            node
            for node in self._nodes
            if nodes.is_ready(node) and self._node_selector.matches(node.metadata.labels)
        )
        return self._node_fit.fits_any_other(pod, candidates)

    def reason_against_now(self, pod: Pod) -> str:
        """Return which of the two checks of `pre_eviction_filter` refuses a pod."""
        if not self._is_namespace_selected(pod):
            return "namespaceLabelSelector does not match its namespace"
        return "nodeFit is set, and it fits no other node"

    def _is_namespace_selected(self, pod: Pod) -> bool:
        if self._namespace_selector is None or self._namespaces is None:
            return True
        namespace = self._namespaces.get("", pod.metadata.namespace)
        return namespace is not None and self._namespace_selector.matches(namespace.metadata.labels)

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        """Evict a pod through the eviction subresource; a refusal is logged and returned."""
        if self._evictor is None:
            raise RuntimeError(f"pod {pod.metadata.key} cannot be evicted: there is no API server")
        return await self._evictor.evict(pod, options)
