"""MigrationController: evict a pod by a PodMigrationJob, which first finds the pod another place.

The jobs are arbitrated against limits of concurrent migrations, and then carried out. Source: Koordinator,
`pkg/descheduler/controllers/migration`.
"""

import logging
from collections.abc import Mapping
from typing import ClassVar, Final

from koordpy.api import label_selector
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Needs, Right
from koordpy.api.reservation import Reservation
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.descheduling.interface import EvictOptions, EvictPlugin, FilterPlugin, Handle, Refusal
from koordpy.descheduling.toolkit import nodes
from koordpy.descheduling.toolkit.upstream_node_fit import UpstreamNodeFit
from koordpy.lib.feature_gates import FeatureSpec, Stage

from .args import EvictionGate, MigrationControllerArgs
from .controller import WITHOUT_CLAIMS, Controller
from .eviction_requests import GATE as EVICTION_REQUESTS
from .job_creation import job_for

log = logging.getLogger(__name__)

SCHEDULING: Final = "scheduling.koordinator.sh"


class MigrationController(EvictPlugin, FilterPlugin):
    """Evict and filter."""

    name = "MigrationController"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {
        EVICTION_REQUESTS: FeatureSpec(False, Stage.ALPHA),
        WITHOUT_CLAIMS: FeatureSpec(False, Stage.BETA),
    }
    needs = Needs(
        rights=(
            *(Right(verb, "podmigrationjobs", SCHEDULING) for verb in ("create", "delete", "get", "patch")),
            Right("patch", "podmigrationjobs/status", SCHEDULING),
            *(Right(verb, "reservations", SCHEDULING) for verb in ("create", "delete", "get", "patch")),
            *(Right(verb, "pods") for verb in ("delete", "get", "patch")),
            Right("create", "pods/eviction"),
            Right("list", "poddisruptionbudgets", "policy"),
        ),
        later=(Reservation,),
        elsewhere=(
            "`get` on the `scale` subresource of other workloads whose pods are to be migrated",
            f"with the gate `{EVICTION_REQUESTS}`: `create`, `delete` and `get` on "
            "`evictionrequests.lifecycle.k8s.io`",
        ),
    )
    args: MigrationControllerArgs

    def __init__(self, args: MigrationControllerArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._controller = handle.shared.get(Controller, lambda: Controller(args, handle))
        if self._controller.args != args:
            raise ValueError(
                f"profile {handle.profile} has other arguments of {self.name} than an earlier one; all "
                "profiles share one migration controller: give them equal arguments"
            )
        self._filters = self._controller.filters
        self._nodes = handle.cluster.store(Node)
        fits = args.node_fit and EvictionGate.NODE_FIT not in args.skipped_gates
        self._node_fit = UpstreamNodeFit(handle.pods) if fits else None
        self._node_selector = label_selector.parse(args.node_selector)

    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be migrated now."""
        reason = self._filters.reason_against(pod)
        if reason is not None:
            log.debug("pod %s may not be migrated: %s", pod.metadata.key, reason)
        return reason is None

    def reason_against(self, pod: Pod) -> str | None:
        """Return why a pod may not be migrated now, None if it may: the first reason."""
        return self._filters.explanation(pod)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether, with nodeFit, the pod fits another ready node that nodeSelector selects."""
        if self._node_fit is None:
            return True
        candidates = (
            node
            for node in self._nodes
            if nodes.is_ready(node) and self._node_selector.matches(node.metadata.labels)
        )
        return self._node_fit.fits_any_other(pod, candidates)

    def reason_against_now(self, pod: Pod) -> str:
        """Return why `pre_eviction_filter` refuses a pod."""
        return "nodeFit is set, and it fits no other node that nodeSelector selects"

    @property
    def is_dry_run(self) -> bool:
        """Whether `dryRun` is set."""
        return self.args.dry_run

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        """Create the job that evicts a pod; a refusal is logged and returned."""
        key, controller = pod.metadata.key, self._controller
        if self.args.dry_run:
            log.info("%s: pod %s would be migrated (dry run): %s", options.plugin_name, key, options.reason)
            return True
        client = self.handle.client
        if client is None:
            raise RuntimeError(f"pod {key} cannot be migrated: there is no API server")
        reason = self._filters.reason_against(pod) or controller.limiters.reason_against(pod)
        if reason is not None:
            log.info("%s: pod %s is not migrated: %s", options.plugin_name, key, reason)
            return Refusal(reason)
        job = job_for(pod, options, self.args, name=controller.new_name(), created_by=controller.identity)
        try:
            controller.jobs.created(await client.create(job))
        except (ApiError, ConnectionFailed) as error:
            log.error("PodMigrationJob of pod %s cannot be created: %s", key, error)
            return Refusal(f"its PodMigrationJob cannot be created: {error}")
        return True
