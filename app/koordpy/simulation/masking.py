"""Removes confidential fields from recorded objects, and replaces names by meaningless ones.

The remaining fields are those that placement depends on: requests, selectors, affinities, tolerations,
priorities, and the labels and annotations of Kubernetes and Koordinator. Images, commands, environments,
volumes, secrets and other annotations are never recorded. With anonymous names each name is replaced
consistently within a recording, and values of user-defined labels become `v1`, `v2` ...
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

Document = dict[str, Any]

_POD_FIELDS: Final = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priorityClassName",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
_KNOWN_DOMAINS: Final = ("koordinator.sh", "kubernetes.io", "k8s.io")
_HOSTNAME: Final = "kubernetes.io/hostname"
_NOT_KEPT: Final = ("kubectl.kubernetes.io/last-applied-configuration", "kubernetes.io/config.hash")
_NOT_TAKEN: Final = ("apiVersion", "kind", "metadata", "status", "description")
_OF_PEOPLE: Final = ("app.kubernetes.io/",)
"""Labels below Kubernetes' domain with user-defined values."""


class Masking:
    """Trims objects; with `anonymous` it also changes names, the same way for all objects."""

    def __init__(self, *, anonymous: bool = False) -> None:
        self._anonymous = anonymous
        self._names: dict[tuple[str, str], str] = {}

    def name(self, kind: str, name: str) -> str:
        """Return the name that an object of a kind has in the recording."""
        if not self._anonymous or not name:
            return name
        key = (kind, name)
        if key not in self._names:
            count = sum(known == kind for known, _ in self._names) + 1
            self._names[key] = f"{kind}-{count}"
        return self._names[key]

    def namespace(self, name: str) -> str:
        """Return the name of a namespace; the system's own ones are not masked."""
        return name if name == "default" or name.startswith("kube-") else self.name("namespace", name)

    # --- objects ---------------------------------------------------------------------------------

    def pod(self, document: Mapping[str, Any]) -> Document:
        """Return the document from which a recorded pod is created again."""
        given, spec = document.get("metadata") or {}, document.get("spec") or {}
        kept: Document = {key: copy.deepcopy(spec[key]) for key in _POD_FIELDS if spec.get(key)}
        kept["containers"] = [_container(item, i) for i, item in enumerate(spec.get("containers") or ())]
        if spec.get("initContainers"):
            kept["initContainers"] = [
                _container(item, i, "init-") for i, item in enumerate(spec["initContainers"])
            ]
        metadata: Document = {
            "name": self.name("pod", str(given.get("name"))),
            "namespace": self.namespace(str(given.get("namespace") or "default")),
            **self._labelled(given),
        }
        owners = [owner for owner in given.get("ownerReferences") or () if owner.get("controller")]
        if owners:
            metadata["ownerReferences"] = [self._owner(owner) for owner in owners]
        self._mask_selectors(kept)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept}

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels as recorded."""
        return {key: self._value(key, str(value)) for key, value in labels.items()}

    def annotations(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return those annotations that Kubernetes or Koordinator defines."""
        return {key: value for key, value in annotations.items() if _is_known(key) and key not in _NOT_KEPT}

    def trimmed(self, document: Mapping[str, Any]) -> Document:
        """Return an object that is created unchanged (a profile, a Reservation): its spec, and its identity.

        Pod templates in it are trimmed as pods are.
        """
        given = document.get("metadata") or {}
        kind, name = str(document.get("kind")), str(given.get("name"))
        if kind == "Namespace":
            name = self.namespace(name)
        elif kind != "PriorityClass":  # pods refer to it, and its name is meaningful
            name = self.name(kind.lower(), name)
        metadata: Document = {"name": name, **self._labelled(given)}
        if given.get("namespace"):
            metadata["namespace"] = self.namespace(str(given["namespace"]))
        result: Document = {"apiVersion": document.get("apiVersion"), "kind": kind, "metadata": metadata}
        for key, value in document.items():
            if key not in _NOT_TAKEN and not (kind == "Namespace" and key == "spec"):
                result[key] = copy.deepcopy(value)
        template = (
            (result.get("spec") or {}).get("template") if isinstance(result.get("spec"), dict) else None
        )
        if isinstance(template, dict):
            trimmed = self.pod(template)
            for name in ("name", "ownerReferences"):
                trimmed["metadata"].pop(name, None)
            if not (template.get("metadata") or {}).get("namespace"):
                trimmed["metadata"].pop("namespace", None)
            result["spec"]["template"] = {"metadata": trimmed["metadata"], "spec": trimmed["spec"]}
        if self._anonymous and isinstance(result.get("spec"), dict):
            for owner in result["spec"].get("owners") or ():
                self._mask_owner(owner)
        self._mask_selectors(result)
        return result

    # --- parts -----------------------------------------------------------------------------------

    def _labelled(self, given: Mapping[str, Any]) -> Document:
        found = {
            "labels": self.labels(given.get("labels") or {}),
            "annotations": self.annotations(given.get("annotations") or {}),
        }
        return {key: value for key, value in found.items() if value}

    def _owner(self, owner: Mapping[str, Any]) -> Document:
        kind = str(owner.get("kind"))
        return {
            "apiVersion": owner.get("apiVersion"),
            "kind": kind,
            "name": self.name(kind.lower(), str(owner.get("name"))),
            "uid": self.name("uid", str(owner.get("uid"))),
            "controller": True,
        }

    def _mask_owner(self, owner: Any) -> None:
        """Change the names in the owners of a Reservation, in place."""
        for part in ("object", "controller"):
            named = owner.get(part) if isinstance(owner, dict) else None
            if not isinstance(named, dict):
                continue
            if named.get("name"):
                named["name"] = self.name(str(named.get("kind") or "pod").lower(), str(named["name"]))
            if named.get("namespace"):
                named["namespace"] = self.namespace(str(named["namespace"]))
            named.pop("uid", None)

    def _value(self, key: str, value: str) -> str:
        if not self._anonymous or not value:
            return value
        if key == _HOSTNAME:
            return self.name("node", value)
        if key == "kubernetes.io/metadata.name":
            return self.namespace(value)
        if _is_known(key) and not key.startswith(_OF_PEOPLE):
            return value
        return self.name("v", value)

    def _mask_selectors(self, value: Any) -> None:
        """Change the values in all selectors below, in place."""
        if not self._anonymous:
            return
        if isinstance(value, list):
            for item in value:
                self._mask_selectors(item)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key in ("matchLabels", "nodeSelector") and isinstance(inner, dict):
                    value[key] = self.labels(inner)
                elif key in ("matchExpressions", "matchFields") and isinstance(inner, list):
                    for expression in inner:
                        self._mask_expression(expression)
                elif key == "namespaces" and isinstance(inner, list):
                    value[key] = [self.namespace(str(name)) for name in inner]
                else:
                    self._mask_selectors(inner)

    def _mask_expression(self, expression: Any) -> None:
        if not isinstance(expression, dict) or expression.get("operator") not in ("In", "NotIn"):
            return
        key = str(expression.get("key"))
        key = _HOSTNAME if key == "metadata.name" else key
        expression["values"] = [self._value(key, str(value)) for value in expression.get("values") or ()]


def _container(container: Mapping[str, Any], index: int, prefix: str = "") -> Document:
    kept: Document = {"name": f"{prefix}container-{index}", "image": "recorded:1"}
    resources = container.get("resources") or {}
    amounts = {part: dict(resources[part]) for part in ("requests", "limits") if resources.get(part)}
    if amounts:
        kept["resources"] = amounts
    ports = [
        {key: port[key] for key in ("containerPort", "hostPort", "hostIP", "protocol") if key in port}
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
    if ports:
        kept["ports"] = ports
    if container.get("restartPolicy"):
        kept["restartPolicy"] = container["restartPolicy"]
    return kept


def _is_known(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == known or domain.endswith(f".{known}") for known in _KNOWN_DOMAINS)
