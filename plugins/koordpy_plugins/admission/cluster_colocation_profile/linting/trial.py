"""Try a profile on pods that it selects, with the very handlers that the webhooks run.

The pods are made up: as few labels as the selector asks for, and what a pod brings itself (a priority, a QoS
class) in all its kinds, since a profile that sets only one of the two works for some pods and not for others.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from koordpy.admission.handler import (
    CREATE,
    Errored,
    GroupVersionResource,
    Handle,
    NoArgs,
    Request,
)
from koordpy.admission.lint import Finding, Severity
from koordpy.api import extension
from koordpy.api.core import Namespace, PriorityClass
from koordpy.api.document import Document
from koordpy.api.meta import ObjectMeta
from koordpy.api.patch import clone
from koordpy.api.qos import QoSClass
from koordpy.api.selector_overlap import example
from koordpy.cluster.cluster import Cluster

from ..plugin import ClusterColocationProfilePlugin
from ..probability import percentage
from ..validation import ClusterColocationProfileValidation
from .subject import Subject
from .values import SHIPPED

NAMESPACE: Final = "trial"

_RESOURCES: Final = {"cpu": "1", "memory": "1Gi"}
_CONTAINER: Final = {
    "name": "main",
    "image": "main",
    "resources": {"requests": _RESOURCES, "limits": _RESOURCES},
}
_PLAIN: Final = {"schedulerName": "default-scheduler", "priority": 0, "containers": [_CONTAINER]}
_FULL: Final = _PLAIN | {
    "containers": [
        _CONTAINER
        | {
            "env": [{"name": "A", "value": "a"}],
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ],
    "initContainers": [_CONTAINER | {"name": "first"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "a"}],
    "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a"]}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "nodeSelector": {"a": "b"},
}
_PRIORITIES: Final = (0, *SHIPPED.values())
_BY_PRIORITY: Final = {value: name for name, value in SHIPPED.items()}


class Always(random.Random):
    """Rolls that are always for a profile, as long as its probability is above 0."""

    def randint(self, a: int, b: int) -> int:
        """Return the lowest number."""
        return a


class Trial:
    """A cluster with some profiles in it, to try them on pods."""

    def __init__(self, subjects: Sequence[Subject], handle: Handle) -> None:
        cluster = Cluster()
        self._namespaces = cluster.store(Namespace)
        for name, value in _priorities(subjects, handle).items():
            cluster.store(PriorityClass).apply(PriorityClass(metadata=ObjectMeta(name=name), value=value))
        own = Handle(cluster, handle.gates, Always())
        self._mutating = ClusterColocationProfilePlugin(NoArgs(), own)
        self._validating = ClusterColocationProfileValidation(NoArgs(), own)
        for subject in subjects:
            cluster.store(type(subject.profile)).apply(subject.profile)

    def selected(self, subject: Subject) -> list[str]:
        """Return the names of the profiles that select what is tried for a profile."""
        labels, namespace_labels = examples(subject)
        return [item.name for item in self._mutating.profiles.index.find(labels, namespace_labels)]

    def admit(self, subject: Subject, spec: Mapping[str, Any], labels: Mapping[str, str]) -> str:
        """Create a pod that a profile selects. Returns why it is refused, empty if it is not.

        Raises Errored where the profiles cannot be applied.
        """
        wanted, namespace_labels = examples(subject)
        self._namespaces.apply(Namespace(metadata=ObjectMeta(name=NAMESPACE, labels=namespace_labels)))
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "trial", "namespace": NAMESPACE, "labels": {**labels, **wanted}},
            "spec": clone(spec),
        }
        request = _request(document)
        self._mutating.mutate(request, _document(request))
        try:
            self._validating.validate(_request(_document(request).raw))
        except Errored as refusal:
            return refusal.message
        return ""


def try_alone(subject: Subject, handle: Handle) -> Iterator[Finding]:
    """Yield that a profile cannot be applied."""
    if not is_applied(subject):
        return
    trial = Trial([subject], handle)
    for whom, spec in (("every pod is", _PLAIN), ("pods that have such a list already are", _FULL)):
        try:
            trial.admit(subject, spec, {})
        except Errored as error:
            yield subject.finding(
                Severity.ERROR,
                "patch-fails",
                "spec.patch",
                subject.spec.patch,
                f"it cannot be applied, so {whom} refused that the profile selects: {error.message}",
            )
            return


def try_together(subject: Subject, trial: Trial, handle: Handle) -> Iterator[Finding]:
    """Yield that pods which a profile selects are refused, by what all profiles make of them together."""
    if not is_applied(subject) or _has_unknown_priority(subject, handle):
        return
    try:
        refusal = trial.admit(subject, _PLAIN, {})
        if not refusal:
            return
        passing = [
            (qos, priority)
            for qos in QoSClass
            for priority in _PRIORITIES
            if (qos or priority) and not trial.admit(subject, _PLAIN | {"priority": priority}, _qos(qos))
        ]
    except Errored:
        return  # told by try_alone about the profile that it comes from
    others = [name for name in trial.selected(subject) if name != subject.name]
    together = f" together with {', '.join(others)}" if others else ""
    field, value = _cause(subject)
    if not passing:
        yield subject.finding(
            Severity.ERROR,
            "refused",
            field,
            value,
            f"/validate-pod refuses every pod that the profile selects{together}: {refusal}",
        )
        return
    yield subject.finding(
        Severity.WARNING,
        "refused-unless",
        field,
        value,
        f"/validate-pod refuses a pod that the profile selects{together}: {refusal}; unless the pod itself "
        f"has {_told(passing)}",
    )


def examples(subject: Subject) -> tuple[dict[str, str], dict[str, str]]:
    """Return labels of a pod, and of its namespace, that a profile selects."""
    return example(subject.selector) or {}, example(subject.namespace_selector) or {}


def is_applied(subject: Subject) -> bool:
    """Tell whether there can be a pod that a profile is applied to."""
    if example(subject.selector) is None or example(subject.namespace_selector) is None:
        return False
    try:
        return percentage(subject.spec.probability) > 0
    except ValueError:
        return False


def _cause(subject: Subject) -> tuple[str, Any]:
    """Return the field that most likely makes the difference."""
    spec = subject.spec
    if spec.qos_class:
        return "spec.qosClass", spec.qos_class
    if spec.priority_class_name:
        return "spec.priorityClassName", spec.priority_class_name
    return "spec", None


def _told(passing: Sequence[tuple[QoSClass, int]]) -> str:
    """Say what pods pass: by priority alone if that is enough, else by QoS class alone, else by both."""
    by_priority = [_BY_PRIORITY[priority] for qos, priority in passing if not qos]
    if by_priority:
        return f"priority class {' or '.join(by_priority)}"
    by_qos = [qos.value for qos, priority in passing if not priority]
    if by_qos:
        return f"QoS class {' or '.join(by_qos)}"
    return " or ".join(f"QoS class {qos} with {_BY_PRIORITY[priority]}" for qos, priority in passing)


def _qos(qos: QoSClass) -> dict[str, str]:
    return {extension.LABEL_POD_QOS: qos.value} if qos else {}


def _priorities(subjects: Sequence[Subject], handle: Handle) -> dict[str, int]:
    """Return the values of all priority classes; of those that are not known, 0."""
    asked = {subject.spec.priority_class_name: 0 for subject in subjects if subject.spec.priority_class_name}
    known = {item.metadata.name: item.value for item in handle.cluster.store(PriorityClass)}
    return asked | SHIPPED | known


def _has_unknown_priority(subject: Subject, handle: Handle) -> bool:
    name = subject.spec.priority_class_name
    return bool(name) and name not in SHIPPED and handle.cluster.store(PriorityClass).get("", name) is None


def _request(document: dict[str, Any]) -> Request:
    document = msgspec.json.decode(msgspec.json.encode(document))
    return Request(
        operation=CREATE,
        namespace=NAMESPACE,
        name="trial",
        resource=GroupVersionResource(version="v1", resource="pods"),
        dry_run=True,
        document=Document(document),
    )


def _document(request: Request) -> Document:
    assert request.document is not None
    return request.document
