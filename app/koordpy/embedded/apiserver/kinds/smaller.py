"""The rules of the smaller kinds: nodes, config maps, budgets, workloads and the like."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from koordpy.api import labels as label_syntax
from koordpy.api.field_cause import Cause, forbidden_field, invalid_value, required, unsupported

from .. import metadata as meta
from .. import quantities
from ..catalog import Served
from ..errors import bad_request
from . import forms
from .autoscalers import AutoscalerStrategy, OldAutoscalerStrategy
from .events import EventStrategy, NewEventStrategy
from .namespaces import NamespaceStrategy
from .pods import PodStrategy
from .priority import PriorityClassStrategy
from .services import ServiceStrategy
from .signing_requests import SigningRequestStrategy
from .strategy import Strategy, WithStatus, keep_times
from .volumes import ClaimStrategy, StorageClassStrategy, StorageStrategy, VolumeStrategy
from .webhook_configurations import ConfigurationStrategy
from .workloads import ReplicationControllerStrategy, WorkloadStrategy

Document = dict[str, Any]

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)

_ADMISSION = "admissionregistration.k8s.io"


class NodeStrategy(Strategy):
    """The rules of nodes. A node keeps the status that it is created with."""

    has_status = True
    selectable = ("spec.unschedulable",)

    def default(self, document: Document) -> None:
        """Quantities become canonical, and allocatable defaults to capacity."""
        status = document.setdefault("status", {})
        for name in ("capacity", "allocatable"):
            quantities.settle(status, name, "Node", "status.")
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        keep_times(status.get("conditions"), "lastHeartbeatTime")
        document.setdefault("spec", {})

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return whether pods may be scheduled."""
        return {"spec.unschedulable": "true" if document.get("spec", {}).get("unschedulable") else "false"}

    def prepare_create(self, document: Document) -> None:
        """A node is created with its status; fields that kubelets report are empty."""
        status = document["status"]
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **status.get("nodeInfo", {})}
        if (network := document["spec"].get("podCIDR")) and not document["spec"].get("podCIDRs"):
            document["spec"]["podCIDRs"] = [network]

    def validate(self, document: Document) -> Iterable[Cause]:
        """Taints must be complete and unique."""
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate(document.get("spec", {}).get("taints") or ()):
            at = f"metadata.taints[{index}]"
            key, effect = taint.get("key", ""), taint.get("effect", "")
            if problem := label_syntax.key_error(key):
                yield invalid_value(f"{at}.key", key, problem)
            if problem := label_syntax.value_error(taint.get("value", "")):
                yield invalid_value(f"{at}.value", taint.get("value", ""), problem)
            if not effect:
                yield required(f"{at}.effect")
            elif effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
                yield unsupported(f"{at}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
            if (key, effect) in seen:
                yield Cause(f"{at}", "FieldValueDuplicate", "taints must be unique by key and effect pair")
            seen.add((key, effect))


class ConfigMapStrategy(Strategy):
    """The rules of config maps and secrets: text values, and immutability."""

    def default(self, document: Document) -> None:
        """Empty maps are dropped."""
        for name in ("data", "binaryData"):
            if document.get(name) == {}:
                del document[name]

    def validate(self, document: Document) -> Iterable[Cause]:
        """Keys must be file names."""
        for field in ("data", "binaryData"):
            for key in document.get(field) or ():
                if (
                    not key
                    or len(key) > 253
                    or not key.replace("-", "").replace("_", "").replace(".", "").isalnum()
                ):
                    told = (
                        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                        "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                        "'[-._a-zA-Z0-9]+')"
                    )
                    yield invalid_value(f"{field}[{key}]", key, told)

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """An immutable object cannot change."""
        if not old.get("immutable"):
            return
        if not new.get("immutable"):
            yield forbidden_field("immutable", "field is immutable when `immutable` is set")
        for field in ("data", "binaryData"):
            if new.get(field) != old.get(field):
                yield forbidden_field(field, "field is immutable when `immutable` is set")


class SecretStrategy(ConfigMapStrategy):
    """The rules of secrets."""

    selectable = ("type",)

    def default(self, document: Document) -> None:
        """Plain texts are encoded; a secret without a type is opaque."""
        for key, text in (document.pop("stringData", None) or {}).items():
            document.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
        super().default(document)
        document.setdefault("type", "Opaque")

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the type."""
        return {"type": document.get("type", "")}

    def read(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Values must be base64."""
        document = super().read(served, document, unknown)
        for key, value in (document.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise bad_request(f"Secret: data[{key}]: illegal base64 data") from None
        return document


class BudgetStrategy(WithStatus):
    """The rules of PodDisruptionBudgets."""

    unconditional_update = False

    def prepare_create(self, document: Document) -> None:
        """A new budget allows nothing until its controller has counted."""
        super().prepare_create(document)
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        document["status"] = dict.fromkeys(counts, 0)

    def validate(self, document: Document) -> Iterable[Cause]:
        """Only one of the two limits may be set."""
        spec = document.get("spec", {})
        if "minAvailable" in spec and "maxUnavailable" in spec:
            yield invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
        for field in ("minAvailable", "maxUnavailable"):
            value = spec.get(field)
            if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()):
                told = (
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  "
                    "or '93%', regex used for validation is '[0-9]+%')"
                )
                yield invalid_value(f"spec.{field}", value, told)
            elif isinstance(value, int) and value < 0:
                yield invalid_value(f"spec.{field}", value, "must be greater than or equal to 0")
            elif isinstance(value, str) and int(value[:-1]) > 100:
                yield invalid_value(f"spec.{field}", value, "must not be greater than 100%")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy not in (None, "IfHealthyBudget", "AlwaysAllow"):
            yield unsupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


class LeaseStrategy(Strategy):
    """The rules of leases."""

    unconditional_update = False

    def default(self, document: Document) -> None:
        """Times must be times."""
        for name in ("acquireTime", "renewTime"):
            forms.check_micro_time("Lease", f"spec.{name}", (document.get("spec") or {}).get(name))

    def validate(self, document: Document) -> Iterable[Cause]:
        """Durations are positive, transitions are counted up from 0."""
        spec = document.get("spec") or {}
        if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
            yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        if (count := spec.get("leaseTransitions")) is not None and count < 0:
            yield invalid_value("spec.leaseTransitions", count, "must be greater than or equal to 0")


class QuotaStrategy(StorageStrategy):
    """The rules of resource quotas. They are stored, not enforced."""

    has_status = True

    def default(self, document: Document) -> None:
        """Quantities become canonical."""
        quantities.settle(document.setdefault("spec", {}), "hard", "ResourceQuota", "spec.")

    def prepare_create(self, document: Document) -> None:
        """A new quota is not used yet."""
        document["status"] = {}


class RbacStrategy(Strategy):
    """The rules of RBAC objects: nearly any name is allowed."""

    name_rule = staticmethod(meta.path_segment)

    def default(self, document: Document) -> None:
        """Users and groups are of this API group."""
        for subject in document.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


class GenerationStrategy(Strategy):
    """A kind without status whose generation counts its changes."""

    counts_generation = True


class EndpointSliceStrategy(Strategy):
    """The rules of endpoint slices."""

    counts_generation = True

    def default(self, document: Document) -> None:
        """Ports have a name, which may be empty, and a protocol."""
        for port in document.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, document: Document) -> Iterable[Cause]:
        """The type of the addresses is known."""
        kinds = ("FQDN", "IPv4", "IPv6")
        if not document.get("addressType"):
            yield required("addressType")
        elif document["addressType"] not in kinds:
            yield unsupported("addressType", document["addressType"], kinds)


class EndpointsStrategy(Strategy):
    """The rules of endpoints."""

    def default(self, document: Document) -> None:
        """Ports have a protocol."""
        for subset in document.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")


class IngressClassStrategy(GenerationStrategy):
    """The rules of ingress classes."""

    def validate(self, document: Document) -> Iterable[Cause]:
        """The controller is required."""
        if not (document.get("spec") or {}).get("controller"):
            yield required("spec.controller")


class IngressStrategy(WithStatus):
    """The rules of ingresses."""

    def prepare_create(self, document: Document) -> None:
        """No load balancer has it yet."""
        super().prepare_create(document)
        document["status"] = {"loadBalancer": {}}


def of(group: str, kind: str, version: str = "v1") -> Strategy:
    """Return the rules of a built-in kind."""
    if group == "rbac.authorization.k8s.io":
        return RbacStrategy()
    found: dict[tuple[str, str], Callable[[], Strategy]] = {
        ("", "Pod"): PodStrategy,
        ("", "Event"): EventStrategy,
        ("events.k8s.io", "Event"): NewEventStrategy,
        ("", "Node"): NodeStrategy,
        ("", "Namespace"): NamespaceStrategy,
        ("", "ConfigMap"): ConfigMapStrategy,
        ("", "Secret"): SecretStrategy,
        ("", "ReplicationController"): ReplicationControllerStrategy,
        ("", "PersistentVolume"): VolumeStrategy,
        ("", "PersistentVolumeClaim"): ClaimStrategy,
        ("", "PodTemplate"): StorageStrategy,
        ("", "ResourceQuota"): QuotaStrategy,
        ("", "ServiceAccount"): StorageStrategy,
        ("storage.k8s.io", "CSIDriver"): StorageStrategy,
        ("storage.k8s.io", "CSINode"): StorageStrategy,
        ("storage.k8s.io", "StorageClass"): StorageClassStrategy,
        ("storage.k8s.io", "VolumeAttachment"): StorageStrategy,
        ("", "Service"): ServiceStrategy,
        ("", "Endpoints"): EndpointsStrategy,
        ("discovery.k8s.io", "EndpointSlice"): EndpointSliceStrategy,
        ("apps", "Deployment"): lambda: WorkloadStrategy("Deployment"),
        ("apps", "ReplicaSet"): lambda: WorkloadStrategy("ReplicaSet"),
        ("apps", "StatefulSet"): lambda: WorkloadStrategy("StatefulSet"),
        ("apps", "DaemonSet"): lambda: WorkloadStrategy("DaemonSet"),
        ("batch", "Job"): lambda: WorkloadStrategy("Job"),
        ("batch", "CronJob"): lambda: WorkloadStrategy("CronJob"),
        ("autoscaling", "HorizontalPodAutoscaler"): (
            AutoscalerStrategy if version == "v2" else OldAutoscalerStrategy
        ),
        ("certificates.k8s.io", "CertificateSigningRequest"): SigningRequestStrategy,
        ("networking.k8s.io", "Ingress"): IngressStrategy,
        ("networking.k8s.io", "IngressClass"): IngressClassStrategy,
        ("networking.k8s.io", "NetworkPolicy"): GenerationStrategy,
        ("resource.k8s.io", "DeviceClass"): GenerationStrategy,
        ("policy", "PodDisruptionBudget"): BudgetStrategy,
        ("coordination.k8s.io", "Lease"): LeaseStrategy,
        ("scheduling.k8s.io", "PriorityClass"): PriorityClassStrategy,
        (_ADMISSION, "MutatingWebhookConfiguration"): lambda: ConfigurationStrategy(mutating=True),
        (_ADMISSION, "ValidatingWebhookConfiguration"): lambda: ConfigurationStrategy(mutating=False),
    }
    make = found.get((group, kind), Strategy)
    return make()
