"""GroupIdentity: the kernel's priority of groups of tasks (bvt), by QoS class.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/groupidentity`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from koordpy.agent.interface import CallbackTarget, CgroupError, Handle, StateType, Update
from koordpy.agent.interface.hook import (
    KUBE_QOS_CLASSES,
    ON,
    Hook,
    HookError,
    HostApplicationRequest,
    KubeQOSRequest,
    Level,
    PodRequest,
    Reconciler,
    Response,
    Rule,
    Stage,
    StageFunction,
)
from koordpy.agent.toolkit import hook_requests
from koordpy.api.extension import ANNOTATION_POD_CPU_QOS
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import QoSClass, qos_class_raw
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib import go_json
from koordpy.lib.feature_gates import FeatureSpec

from . import rule

log = logging.getLogger(__name__)

BVT: Final = "cpu.bvt_warp_ns"
SYSCTL: Final = "kernel.sched_group_identity_enabled"
CORE_SCHED_SYSCTL: Final = "kernel.sched_core"


class GroupIdentity(Hook):
    """The hook."""

    name: ClassVar[str] = "GroupIdentity"
    feature: ClassVar[str | None] = "GroupIdentity"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"GroupIdentity": ON}
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "a kernel with group identity (cpu.bvt_warp_ns: Anolis OS, Alibaba Cloud Linux)",
            "NodeSLOs with cpuQOS enabled (koord-manager creates them)",
        ),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.PROC,
                purpose="switching group identity on where the kernel has a switch (Anolis OS)",
                without="it stays as it is on such kernels, and the log says so",
                proc_file="sys/kernel/sched_group_identity_enabled",
                is_problem=False,
            ),
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rule: rule.IdentityRule | None = None
        self._unsupported: str | None = None
        self._checked = False
        self._has_sysctl = False

    def unsupported(self) -> str | None:
        """Return why the kernel has no group identity, None if it has."""
        if not self._checked:
            cgroups = self.handle.cgroups
            self._has_sysctl = cgroups.supported(SYSCTL) is None
            missing = cgroups.supported(BVT, self.handle.layout.qos("Guaranteed"))
            self._unsupported = None if self._has_sysctl else missing
            self._checked = True
        return self._unsupported

    def read_slo(self, slo: NodeSLOSpec) -> bool:
        """Read the identities; return whether they changed."""
        found = rule.parse(slo)
        changed = found != self.rule
        self.rule = found
        return changed

    def rules(self) -> Sequence[Rule]:
        """The QoS strategy of the NodeSLO."""
        return (Rule(self.name, StateType.NODE_SLO_SPEC, self.read_slo, self.write_all, self.unsupported),)

    def reconcilers(self) -> Sequence[Reconciler]:
        """The identities of QoS directories, pods and host applications."""
        return (
            Reconciler(Level.KUBE_QOS, BVT, self.directory),
            Reconciler(Level.POD, BVT, self.pod),
            Reconciler(Level.HOST_APPLICATION, BVT, self.host_application),
        )

    def stages(self) -> Sequence[StageFunction]:
        """The identity of a new pod."""
        return (StageFunction(Stage.PRE_RUN_POD_SANDBOX, self.name, self.pod),)

    # --- values ----------------------------------------------------------------------------------

    def directory(self, request: KubeQOSRequest, response: Response) -> None:
        """Set the identity of a QoS directory."""
        active = self._active()
        if active is not None:
            response.set(BVT, active.directory(request.kube_qos), _formula(request.kube_qos, active))

    def pod(self, request: PodRequest, response: Response) -> None:
        """Set the identity of a pod; an annotation of an LS pod overrides it. Raises HookError."""
        active = self._active()
        if active is None:
            return
        identity = active.pod(request.qos, request.kube_qos)
        formula = _formula(request.qos or request.kube_qos, active)
        own = annotated(request.annotations.get(ANNOTATION_POD_CPU_QOS))
        if own is not None and request.qos is QoSClass.LS:
            enabled, given = own
            identity = (identity if given is None else given) if enabled else rule.NEUTRAL
            formula = f"annotation {ANNOTATION_POD_CPU_QOS}"
        response.set(BVT, identity, formula)

    def host_application(self, request: HostApplicationRequest, response: Response) -> None:
        """Set the identity of a host application."""
        active = self._active()
        if active is not None:
            response.set(BVT, active.host_application(request.qos), _formula(request.qos, active))

    def _active(self) -> rule.IdentityRule | None:
        """Return the rule, None if nothing is to be written: the rule and the kernel's switch are off."""
        if self.unsupported() is not None:
            return None
        current = self.rule or rule.IdentityRule()
        try:
            return current if current.enabled or self._is_switched_on() else None
        except CgroupError as error:
            log.info("%s: %s", self.name, error)
            return None

    def _is_switched_on(self) -> bool:
        """Return whether the kernel's switch is on; a kernel without one always is."""
        return not self._has_sysctl or self.handle.cgroups.read(SYSCTL, "").strip() == "1"

    # --- rule updates ----------------------------------------------------------------------------

    def write_all(self, target: CallbackTarget) -> None:
        """Switch the kernel's group identity on if it is needed, and write all directories.

        Pods' directories include those of pods that the agent does not know, by their QoS directory. Pods
        have the Kubernetes QoS class of their status, and annotations do not count, until the next round.
        """
        current = self.rule
        if self.unsupported() is not None or current is None:
            return
        try:
            if current.enabled:
                self._switch_on()
            elif not self._is_switched_on():
                return
        except CgroupError as error:
            log.warning("%s: cannot switch group identity: %s", self.name, error)
            return
        layout = self.handle.layout
        found = [self._update(layout.qos(qos), current.directory(qos)) for qos in KUBE_QOS_CLASSES]
        remaining = self._pod_directories(current)
        for meta in target.pods:
            identity = current.pod(qos_class_raw(meta.pod), meta.pod.status.qos_class)
            remaining.pop(meta.cgroup_dir, None)
            found += self._tree(meta.cgroup_dir, identity)
        for application in target.host_applications:
            request, response = hook_requests.host_application(layout, application), Response()
            self.host_application(request, response)
            found += hook_requests.updates(request, response, self.name)
        for directory, identity in remaining.items():
            found += self._tree(directory, identity)
        self.handle.executor.update_batch(found)

    def _switch_on(self) -> None:
        if not self._has_sysctl:
            return
        if self.handle.cgroups.supported(CORE_SCHED_SYSCTL) is None:
            self.handle.executor.update(Update(CORE_SCHED_SYSCTL, "", "0", self.name))
        self.handle.executor.update(Update(SYSCTL, "", "1", self.name))

    def _pod_directories(self, current: rule.IdentityRule) -> dict[str, int]:
        """Return the directories of all pods, also of those that the agent does not know."""
        qos_dirs = {self.handle.layout.qos(qos): current.directory(qos) for qos in KUBE_QOS_CLASSES}
        found = {}
        for parent, identity in qos_dirs.items():
            for directory, depth in self.handle.cgroups.walk(parent, 1):
                if depth == 1 and directory not in qos_dirs:
                    found[directory] = identity
        return found

    def _tree(self, directory: str, identity: int) -> list[Update]:
        """Return the updates of a pod's directory and of those of its containers."""
        below = [name for name, depth in self.handle.cgroups.walk(directory, 1) if depth == 1]
        return [self._update(name, identity) for name in (directory, *below)]

    def _update(self, directory: str, identity: int) -> Update:
        return Update(BVT, directory, str(identity), self.name, f"set bvt to {identity}")


def annotated(text: str | None) -> tuple[bool, int | None] | None:
    """Return whether a pod's CPU QoS is enabled, and its identity; None without an annotation.

    Raises HookError.
    """
    if text is None:
        return None
    try:
        document = go_json.members(go_json.parse(text), "value")
        given = document.get("groupidentity")
        identity = None if given is None else go_json.integer(given, "groupIdentity")
        if identity is not None and not -1 <= identity <= 2:
            raise ValueError(f"groupIdentity: got {identity}, expected -1 to 2")
        for name in ("schedidle", "coreexpeller"):
            if document.get(name) is not None:
                (go_json.integer if name == "schedidle" else go_json.boolean)(document[name], name)
        return go_json.boolean(document.get("enable"), "enable") is True, identity
    except ValueError as error:
        raise HookError(f"annotation {ANNOTATION_POD_CPU_QOS}: {error}") from None


def _formula(of: str, current: rule.IdentityRule) -> str:
    return f"group identity of {of}" if current.enabled else "group identity is off"
