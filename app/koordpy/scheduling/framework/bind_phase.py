"""From the chosen node to the bound pod: Reserve, Permit, PreBind, Bind, and Unreserve."""

import logging
from contextlib import suppress

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import (
    Bind,
    Binding,
    Permit,
    PostBind,
    PreBind,
    ReservationInfo,
    ReservationNominator,
    ReservationPreBind,
    Reserve,
    ResizePod,
)
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.gates import DYNAMIC_SCHEDULER_CHECK, RESIZE_POD
from koordpy.scheduling.interface.status import SUCCESS, Code, Status

from .enabled_plugins import EnabledPlugins
from .plugin_call import Broken, as_error, broken, call, call_async, plugin_name

log = logging.getLogger(__name__)

MAX_PERMIT_WAIT = 15 * 60.0
"""Seconds; a Permit plugin cannot make a pod wait longer."""


class BindPhase:
    """The plugins that allocate resources on the chosen node and bind the pod."""

    def __init__(
        self,
        enabled: EnabledPlugins,
        cluster: Cluster,
        gates: FeatureGates,
        profile_name: str,
        nominator: ReservationNominator | None,
    ) -> None:
        self._cluster, self._profile_name, self._nominator = cluster, profile_name, nominator
        self._checks_scheduler = gates.enabled(DYNAMIC_SCHEDULER_CHECK)
        self._resizes = gates.enabled(RESIZE_POD)
        self._resize = enabled.having(ResizePod)
        self._reserve = enabled.at("reserve", Reserve)
        self._permit = enabled.at("permit", Permit)
        self._pre_bind = enabled.at("pre_bind", PreBind)
        self._pre_bind_reservation = enabled.at("pre_bind", ReservationPreBind)
        self._bind = enabled.at("bind", Bind)
        self._post_bind = enabled.at("post_bind", PostBind)

    def nominate_reservation(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run the profile's nominator, which chooses the reservation that the pod will use on its node."""
        nominator = self._nominator
        if nominator is None:
            return SUCCESS
        try:
            status = nominator.nominate_reservation(state, pod, node_name)[1]
        except Exception as error:
            return broken("NominateReservation", plugin_name(nominator), error).status
        if status.is_success or status.is_skip or status.code is Code.WAIT:
            return SUCCESS
        return status.by(plugin_name(nominator))

    def delete_nominated_reservation(self, pod: Pod) -> None:
        """Revert the choice of `nominate_reservation`."""
        if self._nominator is None:
            return
        try:
            self._nominator.delete_nominated_reservation(pod)
        except Exception as error:
            broken("DeleteNominatedReservation", plugin_name(self._nominator), error)

    def run_resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        """Let plugins change the pod's requests (gate ResizePod); return the first failure."""
        if not self._resizes:
            return pod, SUCCESS
        try:
            for name, plugin in self._resize:
                pod, status = call(state, "ResizePod", name, plugin.resize_pod, state, pod, node_name)
                if not status.is_success:
                    return pod, status.by(name)
        except Broken as failure:
            return pod, failure.status
        return pod, SUCCESS

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Reserve; on a failure the caller runs `run_unreserve`."""
        state.write(SCHEDULING_PHASE, "Reserve")
        status = SUCCESS
        try:
            for name, plugin in self._reserve:
                status = call(state, "Reserve", name, plugin.reserve, state, pod, node_name)
                if not status.is_success:
                    if not status.is_rejected:
                        status = as_error(f'running Reserve plugin "{name}"', status, name)
                    status = status.by(name)
                    break
        except Broken as failure:
            status = failure.status
        finally:
            self.delete_nominated_reservation(pod)
            state.delete(SCHEDULING_PHASE)
        return status

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of all Reserve plugins in reverse order; one that raises does not stop the others."""
        for name, plugin in reversed(self._reserve):
            try:
                call(state, "Unreserve", name, plugin.unreserve, state, pod, node_name)
            except Broken:
                log.error(
                    "pod %s: plugin %s may not have given back all on %s", pod.metadata.key, name, node_name
                )

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, dict[str, float]]:
        """Run Permit; with code Wait also return the plugins that wait, with their timeouts in seconds."""
        waits: dict[str, float] = {}
        try:
            for name, plugin in self._permit:
                status = call(state, "Permit", name, plugin.permit, state, pod, node_name)
                if status.code is Code.WAIT:
                    waits[name] = min(status.timeout, MAX_PERMIT_WAIT)
                elif not status.is_success:
                    if not status.is_rejected:
                        status = as_error(f'running Permit plugin "{name}"', status, name)
                    return status.by(name), {}
        except Broken as failure:
            return failure.status, {}
        return (Status(Code.WAIT) if waits else SUCCESS), waits

    async def run_pre_bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Check that the pod still belongs to the profile, then run PreBind, which fills the binding.

        If the watch does not show the pod (yet, or any more), the given object is used: the API server
        refuses to bind a pod that is gone.
        """
        if self._checks_scheduler:
            status = self._check_still_ours(pod)
            if not status.is_success:
                return status
        for name, plugin in self._pre_bind:
            try:
                status = await call_async(
                    state, "PreBind", name, plugin.pre_bind, state, pod, binding.node_name, binding
                )
            except Broken as failure:
                return failure.status
            if not status.is_success:
                if not status.is_rejected:
                    status = as_error(f'running PreBind plugin "{name}"', status, name)
                return status.by(name)
        return SUCCESS

    async def run_pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, binding: Binding
    ) -> Status:
        """Run PreBindReservation in PreBind's order; it replaces PreBind for reserve pods."""
        for name, plugin in self._pre_bind_reservation:
            try:
                status = await call_async(
                    state,
                    "PreBindReservation",
                    name,
                    plugin.pre_bind_reservation,
                    state,
                    reservation,
                    binding.node_name,
                    binding,
                )
            except Broken as failure:
                return failure.status
            if not status.is_success:
                return as_error(f'running ReservationPreBindPlugin plugin "{name}"', status, name)
        return SUCCESS

    def _check_still_ours(self, pod: Pod) -> Status:
        live = self._cluster.store(Pod).get(pod.metadata.namespace, pod.metadata.name) or pod
        if (live.spec.scheduler_name or "default-scheduler") != self._profile_name:
            return Status.failed("schedulerName unmatched")
        if live.metadata.deletion_timestamp:
            return Status.failed("pod is being deleted")
        return SUCCESS

    async def run_bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Run Bind plugins until one does not skip; return Skip if all do."""
        for name, plugin in self._bind:
            try:
                status = await call_async(state, "Bind", name, plugin.bind, state, pod, binding)
            except Broken as failure:
                return failure.status
            if status.is_skip:
                continue
            if not status.is_success and not status.is_rejected:
                status = as_error(f'running Bind plugin "{name}"', status, name)
            return status.by(name) if not status.is_success else status
        return Status.skip()

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run PostBind plugins; one that raises does not stop the others."""
        for name, plugin in self._post_bind:
            with suppress(Broken):
                call(state, "PostBind", name, plugin.post_bind, state, pod, node_name)
