"""The rules of the smaller kinds: nodes, config maps, budgets, workloads and the like."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from koordpy.api import labels as label_syntax
from koordpy.api.meta import parse_time

from . import metadata as meta
from . import pod_validation, quantities
from .catalog import Served
from .errors import Cause, bad_request, forbidden_field, invalid_value, required, unsupported
from .events import EventStrategy, NewEventStrategy
from .namespaces import NamespaceStrategy
from .pod_defaults import default_pod_spec
from .pods import PodStrategy
from .priority import PriorityClassStrategy
from .strategy import Strategy, WithStatus
from .webhook_rules import ConfigurationStrategy

Document = dict[str, Any]

_ADMISSION = "admissionregistration.k8s.io"


class NodeStrategy(Strategy):
    """The rules of nodes. A node keeps the status that it is created with."""

    has_status = True
    selectable = ("spec.unschedulable",)

    def default(self, document: Document) -> None:
        """Quantities become canonical, and a node allocates what it has."""
        status = document.setdefault("status", {})
        for name in ("capacity", "allocatable"):
            quantities.settle(status, name, "Node", "status.")
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        document.setdefault("spec", {})

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return whether pods may be scheduled."""
        return {"spec.unschedulable": "true" if document.get("spec", {}).get("unschedulable") else "false"}

    def prepare_create(self, document: Document) -> None:
        """Times of taints are set."""

    def validate(self, document: Document) -> Iterable[Cause]:
        """Taints must be complete and different from each other."""
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
    """The rules of config maps and secrets: texts, and the promise to stay."""

    def default(self, document: Document) -> None:
        """Empty maps are as good as none."""
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
        """What is immutable stays."""
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

    def validate(self, document: Document) -> Iterable[Cause]:
        """One of the two limits, not both."""
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


class WorkloadStrategy(WithStatus):
    """The rules of what has a pod template and a selector."""

    def __init__(self, defaults: Callable[[Document], None], needs_selector: bool = True) -> None:
        self._defaults = defaults
        self._needs_selector = needs_selector

    def default(self, document: Document) -> None:
        """Set the kind's defaults and those of the template."""
        spec = document.setdefault("spec", {})
        template = spec.get("template")
        if isinstance(template, dict):
            template.setdefault("metadata", {})
            default_pod_spec(template.setdefault("spec", {}))
        self._defaults(spec)

    def validate(self, document: Document) -> Iterable[Cause]:
        """The selector must be there and pick the template's labels; the template must be a pod."""
        spec = document["spec"]
        replicas = spec.get("replicas", 0)
        if replicas < 0:
            yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        template = spec.get("template") or {}
        labels = template.get("metadata", {}).get("labels") or {}
        if self._needs_selector:
            selector = spec.get("selector")
            if not selector:
                yield required("spec.selector")
            elif any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
                yield invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
        yield from pod_validation.validate_spec(template.get("spec") or {}, "spec.template.spec")

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """The selector stays."""
        if self._needs_selector and new["spec"].get("selector") != old["spec"].get("selector"):
            yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")


def _deployment(spec: Document) -> None:
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _replica_set(spec: Document) -> None:
    spec.setdefault("replicas", 1)


def _stateful_set(spec: Document) -> None:
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _daemon_set(spec: Document) -> None:
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _job(spec: Document) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)


class ReplicationControllerStrategy(WorkloadStrategy):
    """The rules of replication controllers: labels and selector follow the template."""

    def __init__(self) -> None:
        super().__init__(_replica_set, needs_selector=False)

    def default(self, document: Document) -> None:
        """The selector is that of the template's labels."""
        super().default(document)
        labels = (document["spec"].get("template") or {}).get("metadata", {}).get("labels")
        if labels:
            document["spec"].setdefault("selector", dict(labels))


class LeaseStrategy(Strategy):
    """The rules of leases."""

    unconditional_update = False

    def default(self, document: Document) -> None:
        """Times must be times."""
        for name in ("acquireTime", "renewTime"):
            text = (document.get("spec") or {}).get(name)
            try:
                if text is not None:
                    parse_time(text)
            except (TypeError, ValueError) as error:
                raise bad_request(f"Lease: spec.{name}: {error}") from None

    def validate(self, document: Document) -> Iterable[Cause]:
        """Durations are positive, transitions are counted up from 0."""
        spec = document.get("spec") or {}
        if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
            yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        if (count := spec.get("leaseTransitions")) is not None and count < 0:
            yield invalid_value("spec.leaseTransitions", count, "must be greater than or equal to 0")


class ServiceStrategy(Strategy):
    """The rules of services. No addresses are handed out."""

    has_status = True

    def default(self, document: Document) -> None:
        """Set the defaults of the spec."""
        spec = document.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port", 0))

    def prepare_create(self, document: Document) -> None:
        """A new service has no load balancer yet."""
        document["status"] = {"loadBalancer": {}}

    def validate(self, document: Document) -> Iterable[Cause]:
        """Ports must be numbers, and different."""
        spec = document["spec"]
        kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
        if spec["type"] not in kinds:
            yield unsupported("spec.type", spec["type"], kinds)
        if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            yield required("spec.ports")
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("port", 0)
            if not isinstance(number, int) or not 1 <= number <= 65535:
                told = "must be between 1 and 65535, inclusive"
                yield invalid_value(f"spec.ports[{index}].port", number, told)


class RbacStrategy(Strategy):
    """The rules of RBAC objects: nearly any name will do."""

    name_rule = staticmethod(meta.path_segment)


def of(group: str, kind: str) -> Strategy:
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
        ("", "PersistentVolume"): WithStatus,
        ("", "PersistentVolumeClaim"): WithStatus,
        ("", "ResourceQuota"): WithStatus,
        ("", "Service"): ServiceStrategy,
        ("apps", "Deployment"): lambda: WorkloadStrategy(_deployment),
        ("apps", "ReplicaSet"): lambda: WorkloadStrategy(_replica_set),
        ("apps", "StatefulSet"): lambda: WorkloadStrategy(_stateful_set),
        ("apps", "DaemonSet"): lambda: WorkloadStrategy(_daemon_set),
        ("batch", "Job"): lambda: WorkloadStrategy(_job, needs_selector=False),
        ("batch", "CronJob"): WithStatus,
        ("policy", "PodDisruptionBudget"): BudgetStrategy,
        ("coordination.k8s.io", "Lease"): LeaseStrategy,
        ("scheduling.k8s.io", "PriorityClass"): PriorityClassStrategy,
        (_ADMISSION, "MutatingWebhookConfiguration"): lambda: ConfigurationStrategy(mutating=True),
        (_ADMISSION, "ValidatingWebhookConfiguration"): lambda: ConfigurationStrategy(mutating=False),
    }
    make = found.get((group, kind), Strategy)
    return make()
