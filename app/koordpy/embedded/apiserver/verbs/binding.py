"""pods/binding: the one way a pod gets its node.

Source: Kubernetes, `pkg/registry/core/pod/storage`. The annotations of the Binding are merged into the pod
in the same write.
"""

from typing import Any

import msgspec

from koordpy.api.field_cause import Cause, required, unsupported
from koordpy.api.meta import format_time
from koordpy.lib.clock import Clock

from .. import metadata as meta
from ..admission.admission import Admission
from ..attributes import Attributes
from ..catalog import Served
from ..errors import bad_request, conflict, invalid, not_found, success
from ..representation import bodies
from ..storage import key_of
from ..wire import Request, Response

Document = dict[str, Any]


class Binder:
    """Binds pods."""

    def __init__(self, pods: Served, admission: Admission, clock: Clock) -> None:
        self._pods = pods
        self._admission = admission
        self._clock = clock

    async def bind(self, request: Request, attrs: Attributes) -> Response:
        """POST of a Binding, to pods/NAME/binding or to bindings."""
        binding = bodies.load_object(request)
        bodies.take_type(self._pods, binding, ("Binding", "v1"))
        unknown: list[str] = []
        metadata = meta.tidy("Binding", "v1", binding.get("metadata"), unknown)
        binding["metadata"] = metadata
        meta.match_namespace(metadata, attrs.namespace)
        attrs.name = attrs.name or metadata.get("name", "")
        if metadata.get("name", "") != attrs.name:
            raise bad_request("name in URL does not match name in Binding object")
        attrs.kind = ("", "v1", "Binding")
        binding = await self._admission.mutate(attrs, binding, None)
        self._check(binding)
        await self._admission.validate(attrs, binding, None)
        self._assign(attrs, binding)
        return Response(msgspec.json.encode(success(code=201)), 201)

    @staticmethod
    def _check(binding: Document) -> None:
        target = binding.get("target")
        if not isinstance(target, dict):
            target = {}
        causes: list[Cause] = []
        if target.get("kind", "") not in ("", "Node"):
            causes.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
        if not target.get("name"):
            causes.append(required("target.name"))
        if causes:
            raise invalid("Binding", "", binding["metadata"].get("name", ""), causes)

    def _assign(self, attrs: Attributes, binding: Document) -> None:
        table = self._pods.table
        key, name = key_of(attrs.namespace, attrs.name), attrs.name
        record = table.get(key)
        if record is None:
            raise not_found("pods", "", name)
        metadata = binding["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        problem = ""
        if uid and uid != record.uid:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        elif version and version != str(record.revision):
            problem = (
                f"Precondition failed: ResourceVersion in precondition: {version}, "
                f"ResourceVersion in object meta: {record.revision}"
            )
        if problem:
            raise conflict("pods", "", name, problem)
        pod = record.document()
        spec = pod["spec"]
        if "deletionTimestamp" in pod["metadata"]:
            problem = f"pod {name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            problem = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            problem = f"pod {name} has non-empty .spec.schedulingGates"
        if problem:
            raise conflict("pods/binding", "", name, problem)
        spec["nodeName"] = binding["target"]["name"]
        for field in ("annotations", "labels"):
            if given := metadata.get(field):
                pod["metadata"][field] = {**pod["metadata"].get(field, {}), **given}
        self._mark_scheduled(pod)
        if not attrs.dry_run:
            table.put(key, pod)

    def _mark_scheduled(self, pod: Document) -> None:
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        conditions = status.setdefault("conditions", [])
        found: Document = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        for index, condition in enumerate(conditions):
            if condition.get("type") == "PodScheduled":
                if condition.get("status") == "True":
                    found["lastTransitionTime"] = condition.get("lastTransitionTime")
                conditions[index] = found
                return
        conditions.append(found)
