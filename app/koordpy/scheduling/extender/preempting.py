"""kube-scheduler's preempt calls: what becomes of the evictions that it proposes for a pod.

A proposal is accepted as far as the pod then also passes koordpy's filters: where it does not, victims are
added, or the node is dropped; plugins may change the rest. For a pod that is placed together with others,
evictions for it alone make no room for its job: nothing is accepted, and the job's plugin preempts instead,
if it does so at all.
"""

import logging
from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.scheduling.gangs.jobs import Jobs
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.preemption.recheck import Recheck
from koordpy.scheduling.profiles.profiles import Profiles

from .attempts import Attempts
from .post_filter import PostFilters
from .victims import known_victims
from .wire import PreemptionArgs

log = logging.getLogger(__name__)


class Preempting:
    """Reviews proposals."""

    def __init__(
        self, profiles: Profiles, handle: Handle, attempts: Attempts, jobs: Jobs, post_filters: PostFilters
    ) -> None:
        self._profiles, self._nodes, self._attempts = profiles, handle.nodes, attempts
        self._jobs, self._post_filters = jobs, post_filters
        self._recheck = Recheck(handle)

    def agreed(self, pod: Pod, args: PreemptionArgs) -> Mapping[str, Victims]:
        """Return the accepted proposals by node name."""
        name = pod.spec.scheduler_name
        framework, whole = self._profiles.of(name), self._profiles.whole_of(name)
        if framework is None or whole is None:
            return {}
        if framework.preempts_beside and self._jobs.is_planned(framework, pod):
            self._post_filters.ask(pod)
            return {}
        attempt = self._attempts.get(pod.metadata.uid)
        state = attempt.state.clone() if attempt is not None else framework.new_state()
        proposal = self._recheck.check(whole, pod, known_victims(args, self._nodes))
        agreed, status = framework.run_preempt(state, pod, proposal)
        if not status.is_success:
            log.warning("pod %s: preemption refused: %s", pod.metadata.key, status.message)
        if not agreed:
            self._post_filters.ask(pod)
        return agreed
