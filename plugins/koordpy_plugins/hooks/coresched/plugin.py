"""CoreSched: pods of different groups do not share a physical core, and QoS directories that yield their CPU.

A group is that of a label, or the pod alone. Source: Koordinator,
`pkg/koordlet/runtimehooks/hooks/coresched`.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from prometheus_client import Gauge

from koordpy.agent.interface import CallbackTarget, CgroupError, Handle, StateType, Update
from koordpy.agent.interface.hook import (
    KUBE_QOS_CLASSES,
    OFF,
    ContainerRequest,
    Hook,
    KubeQOSRequest,
    Level,
    Reconciler,
    Response,
    Rule,
)
from koordpy.agent.toolkit import hook_requests
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import QoSClass
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.feature_gates import FeatureSpec

from . import rule
from .cookies import Cookies
from .kernel import NO_COOKIE, Kernel, Prctl

log = logging.getLogger(__name__)

IDLE: Final = "cpu.idle"
COOKIE: Final = "core_sched_cookie"
SYSCTL: Final = "kernel.sched_core"
GROUP_IDENTITY_SYSCTL: Final = "kernel.sched_group_identity_enabled"
_QOS: Final = frozenset({QoSClass.BE, QoSClass.LS, QoSClass.LSR, QoSClass.LSE, QoSClass.NONE})

CONTAINER_COOKIE = Gauge(
    "koordlet_container_core_sched_cookie",
    "The core scheduling cookie of the container.",
    [
        "node",
        "pod_name",
        "pod_namespace",
        "pod_uid",
        "container_name",
        "container_id",
        "core_sched_group",
        "core_sched_cookie",
    ],
)
# A gauge, because the name of a counter would end in `_total`.
MANAGED = Gauge(
    "koordlet_core_sched_cookie_manage_status",
    "Attempts to give containers the core scheduling cookie of their group.",
    ["node", "core_sched_group", "status"],
)


class CoreSched(Hook):
    """The hook."""

    name: ClassVar[str] = "CoreSched"
    feature: ClassVar[str | None] = "CoreSched"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"CoreSched": OFF}
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "a kernel with core scheduling (5.14), and CPUs with several hardware threads a core",
            "NodeSLOs with the cpuPolicy coreSched",
        ),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.HOST_PID,
                purpose="finding the processes of containers",
                without="no container gets a cookie, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.SYS_PTRACE,
                purpose="giving cookies to processes of others",
                without="no container gets a cookie, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.PROC,
                purpose="switching core scheduling on where the kernel has a switch (Anolis OS)",
                without="it stays as it is on such kernels, and the log says so",
                proc_file="sys/kernel/sched_core",
                is_problem=False,
            ),
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rule: rule.CoreSchedRule | None = None
        self.use_kernel(Prctl())
        self._switched_on = False
        self._adopted = False
        self._series: dict[str, tuple[str, ...]] = {}

    def use_kernel(self, kernel: Kernel) -> None:
        """Use a kernel; the one of a test has processes and cookies of its own."""
        self._kernel, self.cookies = kernel, Cookies(kernel)
        self._support: tuple[str | None] | None = None

    def unsupported(self) -> str | None:
        """Return why the kernel has no core scheduling, None if it has."""
        if self._support is None:
            self._support = (self._kernel.unsupported(),)
        return self._support[0]

    def read_slo(self, slo: NodeSLOSpec) -> bool:
        """Read the settings; return whether they changed."""
        found = rule.parse(slo)
        changed = found != self.rule
        self.rule = found
        self._switched_on = self._switched_on and not changed
        return changed

    def rules(self) -> Sequence[Rule]:
        """The QoS strategy of the NodeSLO; and all pods, until their cookies were taken over."""
        return (
            Rule(
                f"{self.name} (nodeSLO)", StateType.NODE_SLO_SPEC, self.read_slo, self.adopt, self.unsupported
            ),
            Rule(
                f"{self.name} (allPods)", StateType.ALL_PODS, self._wants_pods, self.adopt, self.unsupported
            ),
        )

    def reconcilers(self) -> Sequence[Reconciler]:
        """Idle QoS directories, and the cookies of all containers and sandboxes."""
        return (
            Reconciler(Level.KUBE_QOS, IDLE, self.directory),
            *(
                Reconciler(level, COOKIE, self.container, _QOS, enforce=self.enforce, forget=self.forget)
                for level in (Level.CONTAINER, Level.SANDBOX)
            ),
        )

    # --- values ----------------------------------------------------------------------------------

    def directory(self, request: KubeQOSRequest, response: Response) -> None:
        """Set whether tasks of a QoS directory yield to all others."""
        if self.rule is not None:
            param = self.rule.of_kube_qos[request.kube_qos]
            response.set(IDLE, int(param.idle), f"schedIdle of {request.kube_qos}")

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set the group of a container, or the number 0 for one that takes no part."""
        if (
            self.rule is None
            or self.unsupported() is not None
            or not request.cgroup_dir
            or not request.pod.uid
        ):
            return
        enabled, group = self.rule.group(request.pod)
        response.set(COOKIE, group if enabled else NO_COOKIE, "core sched group")

    # --- cookies ---------------------------------------------------------------------------------

    def enforce(self, request: ContainerRequest, value: int | str) -> None:
        """Give the processes of a container the cookie of its group, or none."""
        if not self._adopted:
            return
        container = _uid(request)
        if isinstance(value, int) and self.cookies.group_of(container) is None:
            return
        pids = self._processes(request)
        if not pids:
            return
        group = self.cookies.group_of(container) if isinstance(value, int) else value
        try:
            if isinstance(value, int):
                self.cookies.clear(container, pids)
                self._drop_series(container, group)
            else:
                self._switch_on()
                self._record(request, value, self.cookies.assign(container, value, pids))
        except OSError as error:
            MANAGED.labels(self.handle.node_name, group or "", "failed").inc()
            log.info("%s: pod %s: container %s: %s", self.name, request.pod.key, request.name, error)

    def forget(self, request: ContainerRequest) -> None:
        """Forget a container that is gone."""
        container = _uid(request)
        self._drop_series(container, self.cookies.forget(container))

    def adopt(self, target: CallbackTarget) -> None:
        """Take over the cookies of an earlier run of the agent, the oldest pod's first; write `cpu.idle`."""
        if self.rule is None or not target.pods:
            return
        for meta in () if self._adopted else sorted(target.pods, key=_created):
            if meta.pod.status.phase not in ("Pending", "Running"):
                continue
            requests = hook_requests.of_pod(meta, self.handle.layout)
            sandbox = hook_requests.sandbox(meta, requests.pod, self.handle.layout, self.handle.cgroups)
            _, group = self.rule.group(requests.pod)
            for request in (sandbox, *requests.running):
                cookie = self.cookies.adopt(_uid(request), group, self._processes(request))
                self._adopted = self._adopted or cookie is not None
                if cookie:
                    self._record(request, group, cookie)
        if self._adopted:
            self._write_idle()

    def _wants_pods(self, _: Any) -> bool:
        return not self._adopted

    def _write_idle(self) -> None:
        found = []
        for qos in KUBE_QOS_CLASSES:
            request, response = hook_requests.kube_qos(self.handle.layout, qos), Response()
            self.directory(request, response)
            found += hook_requests.updates(request, response, self.name)
        self.handle.executor.update_batch(found)

    def _processes(self, request: ContainerRequest) -> Sequence[int]:
        if not request.cgroup_dir:
            return ()
        try:
            return self.handle.cgroups.processes(request.cgroup_dir)
        except CgroupError as error:
            log.debug("%s: %s", self.name, error)
            return ()

    def _switch_on(self) -> None:
        """Switch core scheduling on where the kernel has a switch, and group identity off: only one works."""
        if self._switched_on:
            return
        for sysctl, value in ((GROUP_IDENTITY_SYSCTL, "0"), (SYSCTL, "1")):
            if self.handle.cgroups.supported(sysctl) is None:
                self.handle.executor.update(Update(sysctl, "", value, self.name))
        self._switched_on = True

    # --- metrics ---------------------------------------------------------------------------------

    def _record(self, request: ContainerRequest, group: str, cookie: int) -> None:
        pod, node = request.pod, self.handle.node_name
        labels = (
            node,
            pod.name,
            pod.namespace,
            pod.uid,
            request.name,
            request.container_id,
            group,
            str(cookie),
        )
        container = _uid(request)
        if self._series.get(container) != labels:
            self._drop_series(container)
            self._series[container] = labels
            CONTAINER_COOKIE.labels(*labels).set(cookie)
        MANAGED.labels(node, group, "succeeded").inc()

    def _drop_series(self, container: str, group: str | None = None) -> None:
        """Drop the series of a container, and those of its group if that has no container any more."""
        labels = self._series.pop(container, None)
        if labels is not None:
            CONTAINER_COOKIE.remove(*labels)
        if group is not None and self.cookies.cookie_of(group) == NO_COOKIE:
            for status in ("succeeded", "failed"):
                with suppress(KeyError):
                    MANAGED.remove(self.handle.node_name, group, status)


def _uid(request: ContainerRequest) -> str:
    return f"{request.pod.uid}/{request.container_id}"


def _created(meta: Any) -> tuple[str, str]:
    return meta.pod.metadata.creation_timestamp or "", meta.pod.metadata.key
