"""The accounting record of one quota.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/quota_info.go`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from koordpy.api import extension, resource_list
from koordpy.api.core import Pod
from koordpy.api.koordinator import AbsentList, ElasticQuota
from koordpy.api.quota.info import parent_name
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import DecodeError

from .amounts import at_least, equal, is_zero


@dataclass(slots=True)
class PodInfo:
    """A pod that counts in a quota, with what it requested when it was added."""

    pod: Pod
    """The pod as it was seen last."""
    added: Pod
    """The pod as it was when it was added; Koordinator takes this one for its amounts when it moves it."""
    resource: Quantities
    is_assigned: bool = False
    """Whether it is bound, or has passed Reserve."""


@dataclass(slots=True, eq=False)
class QuotaInfo:
    """What a quota may use, requests, uses and is given.

    Lists are never changed in place: a reader may keep them. A name that is missing from a list differs from
    an amount of 0. `request` and `used` include the children's; `self_request` and `self_used` are those of
    the quota's own pods.
    """

    name: str
    parent_name: str
    is_parent: bool
    allow_lent_resource: bool
    tree: str = ""
    max: Quantities = field(default_factory=dict)
    min: Quantities = field(default_factory=dict)
    has_min: bool = True
    """Whether the quota has a minimum at all: with none it is left out when minimums are scaled."""
    auto_scale_min: Quantities = field(default_factory=dict)
    """The minimum after scaling."""
    shared_weight: Quantities = field(default_factory=dict)
    request: Quantities = field(default_factory=dict)
    """The sum of `child_request`; at least the minimum if the quota does not lend."""
    child_request: Quantities = field(default_factory=dict)
    """What its pods request, and its children, each up to its maximum."""
    self_request: Quantities = field(default_factory=dict)
    non_preemptible_request: Quantities = field(default_factory=dict)
    self_non_preemptible_request: Quantities = field(default_factory=dict)
    used: Quantities = field(default_factory=dict)
    self_used: Quantities = field(default_factory=dict)
    non_preemptible_used: Quantities = field(default_factory=dict)
    self_non_preemptible_used: Quantities = field(default_factory=dict)
    runtime: Quantities = field(default_factory=dict)
    """What the quota may use at present, as of its last refresh."""
    allocated: Quantities = field(default_factory=dict)
    guaranteed: Quantities = field(default_factory=dict)
    runtime_version: int = 0
    pods: dict[str, PodInfo] = field(default_factory=dict)
    """Its own pods, assigned or not, by `namespace/name`."""
    tentative: Quantities = field(default_factory=dict)
    """What pods between filter and bind will use, of the quota and its descendants. Not part of `used`."""
    non_preemptible_tentative: Quantities = field(default_factory=dict)

    @classmethod
    def of(cls, quota: ElasticQuota, *, never_lends: bool = False) -> "QuotaInfo":
        """Read an ElasticQuota; `never_lends` is the gate ElasticQuotaGuaranteeUsage."""
        labels = quota.metadata.labels
        most = resource_list.from_wire(quota.spec.max)
        return cls(
            name=quota.metadata.name,
            parent_name=parent_name(quota),
            is_parent=labels.get(extension.LABEL_QUOTA_IS_PARENT) == "true",
            allow_lent_resource=not never_lends
            and labels.get(extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE) != "false",
            max=most,
            min=resource_list.from_wire(quota.spec.min),
            has_min=not isinstance(quota.spec.min, AbsentList),
            shared_weight=_shared_weight(quota, most),
        )

    def is_changed(self, new: "QuotaInfo") -> bool:
        """Return whether a newer version of the object says something else."""
        return (
            self.is_meta_changed(new)
            or not equal(self.max, new.max)
            or not equal(self.min, new.min)
            or not equal(self.shared_weight, new.shared_weight)
        )

    def is_meta_changed(self, new: "QuotaInfo") -> bool:
        """Return whether the place in the tree changes, or whether the quota lends."""
        return (
            self.allow_lent_resource != new.allow_lent_resource
            or self.is_parent != new.is_parent
            or self.parent_name != new.parent_name
        )

    def take_over(self, new: "QuotaInfo") -> None:
        """Take what a newer version of the object says."""
        self.max, self.min, self.has_min = new.max, new.min, new.has_min
        self.shared_weight = dict(new.max) if is_zero(new.shared_weight) else new.shared_weight
        self.allow_lent_resource, self.is_parent = new.allow_lent_resource, new.is_parent
        self.parent_name = new.parent_name

    @property
    def limited_request(self) -> Quantities:
        """What the quota requests, up to its maximum."""
        result = dict(self.request)
        for name, amount in self.request.items():
            most = self.max.get(name)
            if most is not None and amount > most:
                result[name] = most
        return result

    def with_min(self, amounts: Quantities) -> Quantities:
        """Return a request raised to the minimum, if the quota does not lend."""
        return amounts if self.allow_lent_resource else at_least(amounts, self.min)

    def clear(self) -> None:
        """Forget requests, usage and runtime, but not the pods."""
        self.request, self.child_request, self.self_request = {}, {}, {}
        self.non_preemptible_request, self.self_non_preemptible_request = {}, {}
        self.used, self.self_used = {}, {}
        self.non_preemptible_used, self.self_non_preemptible_used = {}, {}
        self.runtime, self.allocated, self.guaranteed = {}, {}, {}
        self.runtime_version = 0

    # --- pods ------------------------------------------------------------------------------------

    def has(self, pod: Pod) -> bool:
        """Return whether a pod counts in this quota."""
        return pod.metadata.key in self.pods

    def is_assigned(self, pod: Pod | None) -> bool:
        """Return whether a pod counts in this quota as one that has a node."""
        info = None if pod is None else self.pods.get(pod.metadata.key)
        return info is not None and info.is_assigned

    def assigned_pods(self) -> Iterator[Pod]:
        """Yield the pods that have a node."""
        return (info.pod for info in self.pods.values() if info.is_assigned)


def _shared_weight(quota: ElasticQuota, most: Quantities) -> Quantities:
    """Return the weight that the annotation gives, or the maximum if there is none other than 0."""
    text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_SHARED_WEIGHT, "")
    try:
        weight = resource_list.parse(text) if text else None
    except DecodeError:
        weight = None
    return dict(most) if weight is None or is_zero(weight) else weight
