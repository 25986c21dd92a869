"""The states with which the members of a job are filtered hypothetically.

Each member is filtered with a state of its own. Those that PreFilter would treat alike share one, the trigger
pod's if they are like it: a gang of hundreds usually needs a single state.
"""

from collections.abc import Sequence

import msgspec

from koordpy.api.core import Pod
from koordpy.api.pod_specs import without_volume_names
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import NOMINATED_PODS_TO_IGNORE, CycleState
from koordpy.scheduling.interface.handle import WhatIf
from koordpy.scheduling.interface.outcome import PreFilterOutcome
from koordpy.scheduling.interface.status import Code
from koordpy.scheduling.preemption import Preparation, Prepared

from ..topology.placement import PROBING

_encode = msgspec.msgpack.Encoder().encode

_KOORDINATOR = "koordinator.sh/"
_OWN = frozenset(
    (
        "gang.scheduling.koordinator.sh/network-topology-index",
        "gang.scheduling.koordinator.sh/bind-gang-group-id",
        "gang.scheduling.koordinator.sh/bind-gang-member-count",
    )
)
"""Koordinator's annotations that differ from member to member and that no filter reads."""


class Members(Preparation):
    """Prepares the members of a job; `pods` are those whose own nominations are ignored.

    `nodes` are all nodes, `state` is that of the trigger pod. With `strict` a member that PreFilter refuses
    fits nowhere; otherwise, as in Koordinator, only what evictions cannot resolve counts.
    """

    def __init__(
        self,
        framework: WhatIf,
        nodes: NodeSet,
        state: CycleState,
        trigger: Pod,
        pods: Sequence[Pod],
        *,
        strict: bool = False,
    ) -> None:
        self._framework, self._nodes, self._strict = framework, nodes, strict
        self._ignored = frozenset(pod.metadata.uid for pod in pods)
        self._keys: dict[str, bytes] = {}
        own = state.clone()
        own.write(NOMINATED_PODS_TO_IGNORE, self._ignored)
        self._prepared = {self.key(trigger): Prepared(trigger, own, PreFilterOutcome())}

    @property
    def framework(self) -> WhatIf:
        """The profile's framework."""
        return self._framework

    def key(self, pod: Pod) -> bytes:
        """Return what pods have in common that share a state."""
        uid = pod.metadata.uid
        known = self._keys.get(uid)
        if known is None:
            annotations = {
                name: value
                for name, value in pod.metadata.annotations.items()
                if _KOORDINATOR in name and name not in _OWN
            }
            spec = without_volume_names(pod.spec)
            known = self._keys[uid] = _encode((pod.metadata.namespace, annotations, spec))
        return known

    def prepared(self, pod: Pod) -> Prepared:
        """Return the result of PreFilter for a member, which runs on the first use of its key."""
        key = self.key(pod)
        known = self._prepared.get(key)
        if known is None:
            known = self._prepared[key] = self._prepare(pod)
        return known

    def _prepare(self, pod: Pod) -> Prepared:
        state = self._framework.new_state()
        state.write(NOMINATED_PODS_TO_IGNORE, self._ignored)
        state.write(PROBING, True)
        outcome = self._framework.run_pre_filter(state, pod, self._nodes)
        if not self._strict and outcome.status.code is Code.UNSCHEDULABLE:
            outcome = PreFilterOutcome(node_names=outcome.node_names, rejectors=outcome.rejectors)
        return Prepared(pod, state, outcome)
