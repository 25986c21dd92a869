"""The fields of Koordinator's custom resources that koordpy reads."""

from typing import Any

import msgspec

from .meta import KubeObject, LabelSelector, ResourceList, Struct
from .quantity import WireQuantity
from .slo.node_slo import NodeSLOSpec
from .slo.rules import WireDuration

# --- config.koordinator.sh/v1alpha1 --------------------------------------------------------------


class ClusterColocationProfile(KubeObject):
    """How admission changes selected pods."""

    class Spec(Struct):
        """Which pods, what share of them, and the changes."""

        namespace_selector: LabelSelector | None = None
        selector: LabelSelector | None = None
        probability: int | str | None = None
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        label_keys_mapping: dict[str, str] = {}
        annotation_keys_mapping: dict[str, str] = {}
        label_suffixes: dict[str, str] = {}
        scheduler_name: str = ""
        qos_class: str = ""
        priority_class_name: str = ""
        koordinator_priority: int | None = None
        patch: Any = None

    spec: Spec = msgspec.field(default_factory=Spec)


# --- quotas and gangs: scheduling.sigs.k8s.io/v1alpha1, quota.koordinator.sh/v1alpha1 -------------


class AbsentList(dict[str, WireQuantity]):
    """A resource list that an object does not have, where that differs from an empty one."""


class ElasticQuota(KubeObject):
    """The resources of a group of pods, guaranteed `min` and limit `max`; its labels place it in a tree."""

    class Spec(Struct):
        """The guaranteed and the maximum amounts."""

        min: ResourceList = msgspec.field(default_factory=AbsentList)
        max: ResourceList = {}

    class QuotaStatus(Struct):
        """What is in use."""

        used: ResourceList = {}

    spec: Spec = msgspec.field(default_factory=Spec)
    status: QuotaStatus = msgspec.field(default_factory=QuotaStatus)


class ElasticQuotaProfile(KubeObject):
    """The nodes that belong to a quota tree; the tree is named by a label."""

    class Spec(Struct):
        """The root quota of the tree, the labels that it gets, its nodes, and what share of them it has."""

        quota_name: str = ""
        quota_labels: dict[str, str] = {}
        resource_ratio: str | None = None
        node_selector: LabelSelector | None = None

    spec: Spec = msgspec.field(default_factory=Spec)


class PodGroup(KubeObject):
    """A gang: pods that are scheduled together. Source: Kubernetes' scheduler-plugins."""

    class Spec(Struct):
        """How many pods it takes at least, and for how long they may wait for each other."""

        min_member: int = 0
        min_resources: ResourceList = {}
        schedule_timeout_seconds: int | None = None

    class PodGroupStatus(Struct):
        """What its controller has counted."""

        phase: str = ""
        occupied_by: str = ""
        scheduled: int = 0
        running: int = 0
        succeeded: int = 0
        failed: int = 0
        schedule_start_time: str | None = None

    spec: Spec = msgspec.field(default_factory=Spec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


# --- slo.koordinator.sh/v1alpha1 -----------------------------------------------------------------


class ResourceMap(Struct):
    """Amounts of resources in use."""

    resources: ResourceList = {}


class AggregatedUsage(Struct):
    """Usage percentiles over one duration (`5m0s`), by aggregation type (`avg`, `p50` ... `p99`)."""

    usage: dict[str, ResourceMap] = {}
    duration: str = ""


class NodeMetricInfo(Struct):
    """Usage of a node and of its system daemons."""

    node_usage: ResourceMap = msgspec.field(default_factory=ResourceMap)
    aggregated_node_usages: list[AggregatedUsage] = []
    system_usage: ResourceMap = msgspec.field(default_factory=ResourceMap)
    aggregated_system_usages: list[AggregatedUsage] = []


class PodMetricInfo(Struct):
    """Usage of one pod."""

    namespace: str = ""
    name: str = ""
    priority: str = ""
    qos: str = ""
    pod_usage: ResourceMap = msgspec.field(default_factory=ResourceMap)


class HostApplicationMetric(Struct):
    """Usage of a host application."""

    name: str = ""
    priority: str = ""
    qos: str = ""
    usage: ResourceMap = msgspec.field(default_factory=ResourceMap)


class MetricAggregatePolicy(Struct):
    """The windows over which a node's usage is aggregated; None where nothing is configured."""

    durations: list[WireDuration] | None = None


class ReclaimableMetric(Struct):
    """What pods of one priority request and, as predicted, will not use."""

    resource: ResourceMap = msgspec.field(default_factory=ResourceMap)


class NodeMetric(KubeObject):
    """The measured usage of a node and its pods; cluster-scoped, named after the node."""

    class CollectPolicy(Struct):
        """The interval and windows of measurements."""

        aggregate_duration_seconds: int | None = None
        report_interval_seconds: int | None = None
        node_aggregate_policy: MetricAggregatePolicy | None = None
        node_memory_collect_policy: str | None = None

    class Spec(Struct):
        """The collect policy."""

        metric_collect_policy: "NodeMetric.CollectPolicy | None" = None

    class MetricStatus(Struct):
        """The measurements."""

        update_time: str | None = None
        node_metric: NodeMetricInfo | None = None
        pods_metric: list[PodMetricInfo | None] = []
        host_application_metric: list[HostApplicationMetric | None] = []
        prod_reclaimable_metric: ReclaimableMetric | None = None

    spec: Spec = msgspec.field(default_factory=Spec)
    status: MetricStatus = msgspec.field(default_factory=MetricStatus)


class NodeSLO(KubeObject):
    """The QoS strategies of one node; cluster-scoped, named after the node."""

    spec: NodeSLOSpec = msgspec.field(default_factory=NodeSLOSpec)


class ZoneResource(Struct):
    """One resource of a zone."""

    name: str = ""
    capacity: WireQuantity = "0"
    allocatable: WireQuantity = "0"
    available: WireQuantity = "0"


class Zone(Struct):
    """A NUMA zone."""

    name: str = ""
    type: str = ""
    parent: str = ""
    costs: list[dict[str, Any]] = []
    attributes: list[dict[str, Any]] = []
    resources: list[ZoneResource] = []


class NodeResourceTopology(KubeObject):
    """topology.node.k8s.io/v1alpha1: NUMA zones and, in annotations, CPU topology and policies."""

    topology_policies: list[str] = []
    zones: list[Zone] = []
