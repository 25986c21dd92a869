"""Pods: the rules for creating, changing and deleting them."""

from collections.abc import Iterable, Mapping
from typing import Any

from koordpy.api.field_cause import Cause
from koordpy.api.pods import validation
from koordpy.api.pods.defaults import default_pod_spec, qos_class

from .. import quantities
from ..errors import bad_request
from .strategy import Strategy, keep_times

Document = dict[str, Any]

NO_CONTAINERS = "this is koordpy's embedded control plane, whose pods are simulated and run no containers"

_DONE = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """The rules of pods."""

    has_status = True
    counts_generation = True
    returns_deleted = True
    selectable = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )

    def default(self, document: Document) -> None:
        """Set the defaults of the spec."""
        spec = document.setdefault("spec", {})
        with quantities.refused():
            default_pod_spec(spec)
        spec.setdefault("enableServiceLinks", True)
        keep_times((document.get("status") or {}).get("conditions"), "lastProbeTime")

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the selectable fields of pods; absent fields are empty texts."""
        spec, status = document.get("spec", {}), document.get("status", {})
        found = {
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
        }
        for name in ("nodeName", "serviceAccountName"):
            if value := spec.get(name):
                found[f"spec.{name}"] = value
        for name in ("podIP", "nominatedNodeName"):
            if value := status.get(name):
                found[f"status.{name}"] = value
        return found

    def prepare_create(self, document: Document) -> None:
        """A new pod is Pending, and its QoS class is set."""
        super().prepare_create(document)
        spec = document["spec"]
        status: Document = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                }
            ]
        document["status"] = status

    def prepare_status(self, new: Document, old: Document) -> Document:
        """Status and metadata change; owners and spec do not."""
        result = super().prepare_status(new, old)
        result["metadata"] = {**result["metadata"]}
        result["metadata"].pop("ownerReferences", None)
        if owners := old["metadata"].get("ownerReferences"):
            result["metadata"]["ownerReferences"] = owners
        if status := result.get("status"):
            status.setdefault("qosClass", old.get("status", {}).get("qosClass", "BestEffort"))
            status.setdefault("phase", old.get("status", {}).get("phase", "Pending"))
        return result

    def prepare_subresource(self, name: str, new: Document, old: Document) -> Document:
        """`resize` changes the resources of containers, and how they are restarted for it.

        `ephemeralcontainers` changes the containers that are added for debugging. On a node they would never
        start, and `kubectl debug` would wait for them. Raises ApiError (400).
        """
        spec = {**old["spec"]}
        if name == "ephemeralcontainers":
            if spec.get("nodeName"):
                pod = old["metadata"]["name"]
                raise bad_request(f"cannot add a container to pod {pod!r}: {NO_CONTAINERS}")
            spec["ephemeralContainers"] = new["spec"].get("ephemeralContainers") or []
            return {**old, "metadata": {**old["metadata"]}, "spec": spec}
        for field in ("containers", "initContainers"):
            wanted = {container.get("name"): container for container in new["spec"].get(field) or ()}
            if field not in spec:
                continue
            resized = []
            for container in spec[field]:
                given = wanted.get(container["name"], container)
                container = {**container, "resources": given.get("resources") or {}}
                if "resizePolicy" in given:
                    container["resizePolicy"] = given["resizePolicy"]
                resized.append(container)
            spec[field] = resized
        result = {**old, "metadata": {**old["metadata"]}, "spec": spec}
        if spec != old["spec"]:
            result["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return result

    def validate(self, document: Document) -> Iterable[Cause]:
        """Return the errors in a pod."""
        return validation.validate(document)

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """Return the forbidden changes."""
        return validation.validate_update(new, old)

    def grace_period(self, document: Document, asked: int | None) -> int:
        """The requested period, else the pod's own; 0 for pods that never ran or have terminated."""
        spec, status = document.get("spec", {}), document.get("status", {})
        if not spec.get("nodeName") or status.get("phase") in _DONE:
            return 0
        if asked is not None:
            return asked
        period: int = spec.get("terminationGracePeriodSeconds", 30)
        return max(period, 0)
