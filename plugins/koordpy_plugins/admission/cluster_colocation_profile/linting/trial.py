"""Try a profile on pods that it selects, with the handlers that the webhooks run.

The pods are synthetic: they have the labels that the selector requires, with all combinations of priority and
QoS class, since a profile that sets only one of the two works for some pods and not for others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from koordpy.admission.certain_chance import CertainChance
from koordpy.admission.handler import (
    CREATE,
    Errored,
    GroupVersionResource,
    Handle,
    Request,
)
from koordpy.admission.lint import LintHandle
from koordpy.api.core import Namespace, PriorityClass
from koordpy.api.document import Document
from koordpy.api.meta import ObjectMeta
from koordpy.api.patch import clone
from koordpy.api.plugin import NoArgs
from koordpy.api.selector_overlap import example
from koordpy.cluster.cluster import Cluster

from ..plugin import ClusterColocationProfilePlugin
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
PLAIN: Final[dict[str, Any]] = {
    "schedulerName": "default-scheduler",
    "priority": 0,
    "containers": [_CONTAINER],
}
FULL: Final[dict[str, Any]] = PLAIN | {
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
NOTHING: Final[Mapping[str, str]] = {}


class Trial:
    """A cluster with some profiles, to try them on pods."""

    def __init__(self, subjects: Sequence[Subject], handle: LintHandle) -> None:
        cluster = Cluster()
        self._namespaces = cluster.store(Namespace)
        for name, value in _priorities(subjects, handle).items():
            cluster.store(PriorityClass).apply(PriorityClass(metadata=ObjectMeta(name=name), value=value))
        own = Handle(cluster, handle.gates, CertainChance())
        self._mutating = ClusterColocationProfilePlugin(NoArgs(), own)
        self._validating = ClusterColocationProfileValidation(NoArgs(), own)
        for subject in subjects:
            cluster.store(type(subject.profile)).apply(subject.profile)

    def selected(self, example_pod: "Example") -> list[str]:
        """Return the names of the profiles that select a pod."""
        found = self._mutating.profiles.index.find(example_pod.labels, example_pod.namespace_labels)
        return [item.name for item in found]

    def admit(
        self, example_pod: "Example", spec: Mapping[str, Any] = PLAIN, labels: Mapping[str, str] = NOTHING
    ) -> str:
        """Admit a pod with this spec and further labels. Return why it is refused, empty if it is not.

        Raises Errored where the profiles cannot be applied.
        """
        namespace = Namespace(metadata=ObjectMeta(name=NAMESPACE, labels=example_pod.namespace_labels))
        self._namespaces.apply(namespace)
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "trial",
                "namespace": NAMESPACE,
                "labels": {**labels, **example_pod.labels},
            },
            "spec": clone(spec),
        }
        request = _request(document)
        self._mutating.mutate(request, _document(request))
        try:
            self._validating.validate(_request(_document(request).raw))
        except Errored as refusal:
            return refusal.message
        return ""


class Example(NamedTuple):
    """The labels of a pod and of its namespace."""

    labels: dict[str, str]
    namespace_labels: dict[str, str]

    @classmethod
    def of(cls, *subjects: Subject) -> "Example | None":
        """Return a pod that all of these profiles select, None if there can be none."""
        labels = example(*(subject.selector for subject in subjects))
        namespace_labels = example(*(subject.namespace_selector for subject in subjects))
        return None if labels is None or namespace_labels is None else cls(labels, namespace_labels)

    def __str__(self) -> str:
        who = f"pods with {_listed(self.labels)}" if self.labels else "pods without labels"
        return f"{who} in namespaces with {_listed(self.namespace_labels)}" if self.namespace_labels else who


def _priorities(subjects: Sequence[Subject], handle: LintHandle) -> dict[str, int]:
    """Return the values of all priority classes; 0 for unknown ones."""
    asked = {subject.spec.priority_class_name: 0 for subject in subjects if subject.spec.priority_class_name}
    known = {item.metadata.name: item.value for item in handle.cluster.store(PriorityClass)}
    return asked | SHIPPED | known


def _listed(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


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
