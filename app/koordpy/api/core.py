"""The fields of Kubernetes' own objects that koordpy reads."""

from typing import Any

import msgspec

from .meta import Condition, KubeObject, LabelSelector, ResourceList, Struct

# --- Pod -----------------------------------------------------------------------------------------


class ResourceRequirements(Struct):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Struct):
    """A port that a container listens on."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(Struct):
    """A container or an init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = []
    restart_policy: str = ""


class NodeSelectorRequirement(Struct):
    """One expression over a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTerm(Struct):
    """Expressions that must all hold."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(Struct):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Struct):
    """A term that adds its weight to the nodes it matches."""

    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Struct):
    """Which nodes a pod requires and which it prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(Struct):
    """A selection of pods, and the topology domain that counts."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(Struct):
    """A pod affinity term with a weight."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Struct):
    """Pods that a pod must or should share a domain with (or, in podAntiAffinity, not)."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []


class Affinity(Struct):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct):
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct):
    """How evenly matching pods are spread over domains."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class PodSchedulingGate(Struct):
    """A reason not to schedule a pod yet."""

    name: str = ""


class PersistentVolumeClaimVolumeSource(Struct):
    """A claim that a pod mounts."""

    claim_name: str = ""


class ImageVolumeSource(Struct):
    """An image that a pod mounts."""

    reference: str = ""


class CSIVolumeSource(Struct):
    """A volume that a CSI driver makes for a pod, and that lives as long as the pod."""

    driver: str = ""


class Volume(Struct):
    """A volume of a pod, with the fields that eviction policies, node scores and the node agent read."""

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    image: ImageVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None


class PodResourceClaim(Struct):
    """A claim of dynamically allocated resources, with the fields that eviction policies read."""

    name: str = ""


class WorkloadReference(Struct):
    """The group of a Workload that a pod belongs to, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSchedulingGroup(Struct):
    """The PodGroup of `scheduling.k8s.io` that a pod belongs to, since Kubernetes 1.36."""

    pod_group_name: str | None = None


class PodSpec(Struct):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] = []
    overhead: ResourceList = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    scheduling_gates: list[PodSchedulingGate] = []
    workload_ref: WorkloadReference | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: list[Volume] = []
    host_network: bool = False
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class ContainerStateWaiting(Struct):
    """A container that does not run yet, or not at the moment."""

    reason: str = ""


class ContainerStateTerminated(Struct):
    """A container that has ended."""

    exit_code: int = 0
    reason: str = ""


class ContainerStateRunning(Struct):
    """A container that runs."""

    started_at: str | None = None


class ContainerState(Struct):
    """The state of a container: one of these, none if it is unknown."""

    running: ContainerStateRunning | None = None
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct):
    """The status of a container."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodStatus(Struct):
    """The status of a pod."""

    phase: str = ""
    reason: str = ""
    qos_class: str = ""
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    ephemeral_container_statuses: list[ContainerStatus] = []


class Pod(KubeObject):
    """A pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_terminal(self) -> bool:
        """Whether all containers have terminated; such a pod occupies nothing."""
        return self.status.phase in ("Succeeded", "Failed")


# --- Node ----------------------------------------------------------------------------------------


class Taint(Struct):
    """A taint, which keeps pods off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Struct):
    """The spec of a node."""

    unschedulable: bool = False
    taints: list[Taint] = []
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Struct):
    """An image that a node holds."""

    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(Struct):
    """The status of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: list[Condition] = []
    images: list[ContainerImage] = []


class Node(KubeObject):
    """A node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- Others --------------------------------------------------------------------------------------


class NamespaceStatus(Struct):
    """Whether a namespace is terminating."""

    phase: str = ""


class Namespace(KubeObject):
    """A namespace."""

    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class PriorityClass(KubeObject):
    """A name for a priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class PersistentVolumeClaim(KubeObject):
    """A claim on storage, with the fields that eviction policies and the node agent read."""

    class Spec(Struct):
        """The storage class, and the volume once there is one."""

        storage_class_name: str | None = None
        volume_name: str = ""

    spec: Spec = msgspec.field(default_factory=Spec)


class ConfigMap(KubeObject):
    """Configuration as text."""

    data: dict[str, str] = {}


class Secret(KubeObject):
    """Bytes, base64-encoded, by name."""

    data: dict[str, str] = {}
    type: str = ""


class MutatingWebhookConfiguration(KubeObject):
    """Mutating webhooks, of which only the fact that they changed matters."""


class ValidatingWebhookConfiguration(KubeObject):
    """Validating webhooks, of which only the fact that they changed matters."""


class Service(KubeObject):
    """A service, with the fields that pod spreading reads."""

    class Spec(Struct):
        """The selector."""

        selector: dict[str, str] = {}

    spec: Spec = msgspec.field(default_factory=Spec)


class WorkloadSpec(Struct):
    """The spec of a workload."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class WorkloadStatus(Struct):
    """The status of a workload."""

    replicas: int = 0
    ready_replicas: int = 0


class ReplicaSet(KubeObject):
    """A ReplicaSet (and, by shape, a StatefulSet or Deployment)."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class StatefulSet(ReplicaSet):
    """A StatefulSet."""


class Deployment(ReplicaSet):
    """A Deployment."""


class PodTemplate(Struct):
    """The pods that a workload creates."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class DaemonSet(KubeObject):
    """A DaemonSet, with the nodes that it wants pods on."""

    class Spec(Struct):
        """The template."""

        template: PodTemplate = msgspec.field(default_factory=PodTemplate)

    spec: Spec = msgspec.field(default_factory=Spec)


class ReplicationController(KubeObject):
    """A ReplicationController: its selector is a plain map."""

    class Spec(Struct):
        """Replicas and selector."""

        replicas: int | None = None
        selector: dict[str, str] = {}

    spec: Spec = msgspec.field(default_factory=Spec)


class PodDisruptionBudget(KubeObject):
    """How many pods of a set may be disrupted."""

    class Spec(Struct):
        """The pods, and the bound."""

        selector: LabelSelector | None = None
        min_available: int | str | None = None
        max_unavailable: int | str | None = None
        unhealthy_pod_eviction_policy: str = ""

    class BudgetStatus(Struct):
        """The currently allowed disruptions."""

        disruptions_allowed: int = 0
        current_healthy: int = 0
        desired_healthy: int = 0
        expected_pods: int = 0
        observed_generation: int = 0
        disrupted_pods: dict[str, str] = {}

    spec: Spec = msgspec.field(default_factory=Spec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class Lease(KubeObject):
    """A lock that expires."""

    class Spec(Struct):
        """Holder and times."""

        holder_identity: str | None = None
        lease_duration_seconds: int | None = None
        acquire_time: str | None = None
        renew_time: str | None = None
        lease_transitions: int | None = None

    spec: Spec = msgspec.field(default_factory=Spec)


class ObjectReference(Struct):
    """A reference to an object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSeries(Struct):
    """How often an event was repeated, and when last."""

    count: int = 0
    last_observed_time: str | None = None


class Event(KubeObject):
    """Something that happened (events.k8s.io/v1)."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = msgspec.field(default_factory=ObjectReference)
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
