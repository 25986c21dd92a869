"""The interface of runtime hooks: plugins that decide cgroup values of pods, containers and QoS directories.

A hook is a `Hook` that is installed as an entry point of the group `koordpy.hooks` and enabled by a feature
gate. It is made of three kinds of parts, all optional:

- `Rule`: what the hook derives from a state of the node, and what it writes at once when that changed.
- `Reconciler`: the value of one resource for every directory of one level. Values are computed again when a
  pod or a rule changes, and kept in place between two changes.
- `StageFunction`: what the hook does when a container runtime creates or updates something.

Source: Koordinator, `pkg/koordlet/runtimehooks`.
"""

from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from koordpy.api import resource_status
from koordpy.api.extended_resource_spec import Containers, ContainerSpec
from koordpy.api.extension import LABEL_POD_QOS
from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.resource_status import ResourceStatus
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.lib.feature_gates import Stage as Maturity

from .node_plugin import NodePlugin
from .states import CallbackTarget, StateType

ON = FeatureSpec(default=True, stage=Maturity.BETA)
OFF = FeatureSpec(default=False, stage=Maturity.ALPHA)
"""The gates of hooks, as koordlet has them (`pkg/koordlet/runtimehooks/config.go`)."""

KUBE_QOS_CLASSES = (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT)

_QOS_CLASSES = {item.value: item for item in QoSClass}


class HookError(ValueError):
    """A hook cannot decide: an annotation or a state is invalid. Nothing of it is written."""


class Level(StrEnum):
    """What a reconciler's directories belong to."""

    KUBE_QOS = "kubeqos"
    POD = "pod"
    SANDBOX = "sandbox"
    CONTAINER = "container"
    HOST_APPLICATION = "hostapp"


class Stage(StrEnum):
    """When a container runtime calls."""

    PRE_RUN_POD_SANDBOX = "PreRunPodSandbox"
    POST_STOP_POD_SANDBOX = "PostStopPodSandbox"
    PRE_CREATE_CONTAINER = "PreCreateContainer"
    PRE_START_CONTAINER = "PreStartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    PRE_UPDATE_CONTAINER_RESOURCES = "PreUpdateContainerResources"
    POST_STOP_CONTAINER = "PostStopContainer"
    PRE_REMOVE_RUN_POD_SANDBOX = "PreRemoveRunPodSandbox"


class FailurePolicy(StrEnum):
    """Whether the hooks after one that failed are still called."""

    IGNORE = "Ignore"
    FAIL = "Fail"


# --- requests ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NativeResources:
    """What cpu and memory of a spec, or of a runtime's request, ask for; None where it does not say."""

    cpu_shares: int | None = None
    cfs_quota: int | None = None
    """Microseconds; -1 is unlimited."""
    memory_limit: int | None = None
    """Bytes; -1 is unlimited."""


@dataclass(frozen=True)
class PodRequest:
    """A pod. Labels and annotations are empty where it has none.

    `native` is None and `batch` holds the annotation only if a runtime asks, which does not know the spec.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    cgroup_dir: str
    native: NativeResources | None = None
    batch: Containers | None = None
    """The batch resources of its containers; None if it does not use any."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def qos(self) -> QoSClass:
        """The class that the label names; NONE for a missing or unknown one."""
        return _QOS_CLASSES.get(self.labels.get(LABEL_POD_QOS, ""), QoSClass.NONE)

    @property
    def kube_qos(self) -> str:
        """Kubernetes' QoS class, by the cgroup directory."""
        return kube_qos_of(self.cgroup_dir)

    def resource_status(self) -> ResourceStatus:
        """Return the CPUs and NUMA nodes that the scheduler allocated. Raises HookError."""
        try:
            return resource_status.of(self.annotations)
        except ValueError as error:
            raise HookError(str(error)) from None


@dataclass(frozen=True)
class ContainerRequest:
    """A container of a pod, or its sandbox. `cgroup_dir` is empty where the container has none yet."""

    pod: PodRequest
    name: str
    container_id: str = ""
    """`runtime://id`; empty before the container is created."""
    cgroup_dir: str = ""
    is_sandbox: bool = False
    native: NativeResources | None = None
    batch: ContainerSpec | None = None

    @property
    def kube_qos(self) -> str:
        """Kubernetes' QoS class, by the cgroup directory."""
        return kube_qos_of(self.cgroup_dir)


@dataclass(frozen=True)
class KubeQOSRequest:
    """The directory of a Kubernetes QoS class."""

    kube_qos: str
    cgroup_dir: str


@dataclass(frozen=True)
class HostApplicationRequest:
    """An application that is no pod. `qos` is any text."""

    name: str
    qos: str
    cgroup_dir: str


Request = PodRequest | ContainerRequest | KubeQOSRequest | HostApplicationRequest


def kube_qos_of(cgroup_dir: str) -> str:
    """Return the Kubernetes QoS class of a cgroup directory."""
    if "besteffort" in cgroup_dir:
        return KubeQoS.BEST_EFFORT
    return KubeQoS.BURSTABLE if "burstable" in cgroup_dir else KubeQoS.GUARANTEED


# --- response ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mount:
    """A mount that is added to a container."""

    destination: str
    source: str
    type: str = "bind"
    options: tuple[str, ...] = ("rbind",)


@dataclass(frozen=True)
class Device:
    """A device node that is added to a container."""

    path: str
    major: int
    minor: int
    type: str = "c"
    file_mode: int = 0o666


@dataclass
class Response:
    """What hooks want for one request. Later hooks see, and may change, what earlier ones set."""

    values: dict[str, int | str] = field(default_factory=dict)
    """By resource. An empty `cpuset.cpus` is a value, but reconciliation does not write it."""
    formulas: dict[str, str] = field(default_factory=dict)
    """How values were computed, for `koordpy qos explain`."""
    envs: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    """Directories of the node that a container runtime must make, empty and writable for all, beforehand."""

    def set(self, resource: str, value: int | str, formula: str = "") -> None:
        """Want a value of a resource."""
        self.values[resource] = value
        self.formulas[resource] = formula


# --- parts of a hook -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What a hook derives from one state.

    `parse` gets each new state (the NodeSLO spec, the NodeResourceTopology, the Node; None for all pods) and
    returns whether that changed what is derived. If it raises ValueError the old rule stays. `update` is
    called after a change, with the pods and host applications, and writes what must not wait for the values
    of all pods. `unsupported` returns why this node cannot use the rule: then it is never parsed.

    All values are computed again after a change, except for rules of all pods: those must not decide values.
    """

    name: str
    """Unique among all hooks."""
    state: StateType
    parse: Callable[[Any], bool]
    update: Callable[[CallbackTarget], None] | None = None
    unsupported: Callable[[], str | None] | None = None


@dataclass(frozen=True)
class Reconciler:
    """The value of one resource on one level.

    `apply` is given a request of the level and a response; it may set the resource, others too, or nothing.
    It may raise HookError. With `qos`, only pods of these classes are asked about (a pod without a class
    whose CPUs were allocated counts as LSR). Two reconcilers of the same level and resource need different
    classes.

    A resource without a file is kept in place by `enforce(request, value)`, which is called in every round,
    because processes come and go. `forget` is called with the requests whose directories are gone.
    """

    level: Level
    resource: str
    apply: Callable[[Any, Response], None]
    qos: frozenset[QoSClass] | None = None
    enforce: Callable[[Any, int | str], None] | None = None
    forget: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class StageFunction:
    """A function at a stage of the container runtime. Functions of a stage run in the order of their names.

    `apply` is given a PodRequest at the stages of sandboxes, a ContainerRequest at the others; it may raise
    HookError after it has set a part.
    """

    stage: Stage
    name: str
    apply: Callable[[Any, Response], None]


class Hook(NodePlugin, ABC):
    """A runtime hook.

    `feature` is its gate, which it declares in `feature_gates`. All methods are optional. A hook that names a
    `refusal` is not used on this node, and the reason is logged.
    """

    def refusal(self) -> str | None:
        """Return why the hook cannot act on this node at all, None if it can."""
        return None

    def rules(self) -> Sequence[Rule]:
        """Return the rules. Called once."""
        return ()

    def reconcilers(self) -> Sequence[Reconciler]:
        """Return the reconcilers. Called once."""
        return ()

    def stages(self) -> Sequence[StageFunction]:
        """Return the functions at stages of the container runtime. Called once."""
        return ()

    def stop(self) -> None:
        """Complete what must not be left behind. Called once, when the agent ends."""


def by_name(functions: Iterable[StageFunction], stage: Stage) -> list[StageFunction]:
    """Return the functions of a stage in the order in which they are called."""
    return sorted((item for item in functions if item.stage == stage), key=lambda item: item.name)
