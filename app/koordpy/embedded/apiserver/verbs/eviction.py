"""pods/eviction: a deletion that respects the pod's disruption budget.

Source: Kubernetes, `pkg/registry/core/pod/storage/eviction.go`.
"""

from typing import Any

import msgspec

from koordpy.api import label_selector
from koordpy.api.field_cause import Cause
from koordpy.api.meta import LabelSelector, format_time
from koordpy.lib.clock import Clock

from .. import metadata as meta
from ..admission.admission import Admission
from ..attributes import Attributes, is_dry_run
from ..catalog import Catalog
from ..errors import ApiError, bad_request, forbidden, not_found, success, too_many_requests
from ..kinds import forms
from ..representation import bodies
from ..storage import Record, key_of
from ..wire import Request, Response
from .deleting import Deleter, check_preconditions

Document = dict[str, Any]

_MAX_DISRUPTED = 2000
_MULTIPLE = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def budgets_of(catalog: Catalog, pod: Document) -> list[tuple[Record, Document]]:
    """Return the disruption budgets whose selectors match a pod."""
    served = catalog.find("policy", "v1", "poddisruptionbudgets")
    if served is None:
        return []
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    found = []
    keys, _ = served.table.range(metadata["namespace"])
    for key in keys:
        record = served.table.get(key)
        if record is None:
            continue
        budget = record.document()
        if selector_of(budget).matches(labels):
            found.append((record, budget))
    return found


def selector_of(budget: Document) -> label_selector.Selector:
    """Return the matcher of a budget's pods: an empty selector matches all, a missing or invalid one none."""
    selector = budget.get("spec", {}).get("selector")
    if selector is None:
        return label_selector.NOTHING
    try:
        return label_selector.of(msgspec.convert(selector, LabelSelector))
    except (label_selector.SelectorError, msgspec.ValidationError):
        return label_selector.NOTHING


def is_ready(pod: Document) -> bool:
    """Return whether a pod's Ready condition is true."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


class Evictor:
    """Evicts pods."""

    def __init__(self, catalog: Catalog, deleter: Deleter, admission: Admission, clock: Clock) -> None:
        self._catalog = catalog
        self._deleter = deleter
        self._admission = admission
        self._clock = clock

    async def evict(self, request: Request, attrs: Attributes) -> Response:
        """POST of an Eviction to pods/NAME/eviction."""
        eviction = bodies.load_object(request)
        version = eviction.get("apiVersion") or "policy/v1"
        if version not in ("policy/v1", "policy/v1beta1"):
            raise bad_request(f"the API version in the data ({version}) does not match policy/v1")
        bodies.take_type(attrs.served, eviction, ("Eviction", version))
        eviction["metadata"] = metadata = meta.tidy("Eviction", version, eviction.get("metadata"), [])
        meta.match_namespace(metadata, attrs.namespace)
        if metadata.setdefault("name", attrs.name) != attrs.name:
            raise bad_request("name in URL does not match name in Eviction object")
        forms.check("Eviction", eviction, forms.Eviction)
        options = eviction.get("deleteOptions") or {}
        attrs.dry_run = attrs.dry_run or is_dry_run(request, options)
        attrs.kind = ("policy", version.partition("/")[2], "Eviction")
        eviction = await self._admission.mutate(attrs, eviction, None)
        await self._admission.validate(attrs, eviction, None)
        options = dict((eviction or {}).get("deleteOptions") or {})
        pods = attrs.served.table
        record = pods.get(key_of(attrs.namespace, attrs.name))
        if record is None:
            raise not_found("pods", "", attrs.name)
        pod = record.document()
        if not self._may_ignore_budgets(pod):
            self._ask_budget(attrs, pod)
        self._mark(attrs, pod, record, options)
        removal = Attributes("DELETE", attrs.served, attrs.namespace, attrs.name, "", attrs.dry_run)
        options.pop("dryRun", None)
        if (options.get("preconditions") or {}).get("resourceVersion"):
            options["preconditions"] = {
                name: value for name, value in options["preconditions"].items() if name != "resourceVersion"
            }
        await self._deleter.remove(removal, options)
        return Response(msgspec.json.encode(success(code=201)), 201)

    @staticmethod
    def _may_ignore_budgets(pod: Document) -> bool:
        phase = pod.get("status", {}).get("phase")
        return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]

    def _ask_budget(self, attrs: Attributes, pod: Document) -> None:
        budgets = budgets_of(self._catalog, pod)
        if not budgets:
            return
        if len(budgets) > 1:
            raise ApiError(500, "", _MULTIPLE)
        record, budget = budgets[0]
        status = budget.setdefault("status", {})
        if not is_ready(pod):
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
                return
        self._decrement(attrs, record, budget, status, attrs.name)

    def _decrement(
        self, attrs: Attributes, record: Record, budget: Document, status: Document, pod: str
    ) -> None:
        name = budget["metadata"]["name"]
        allowed = status.get("disruptionsAllowed", 0)
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            told = f"The disruption budget {name} is still being processed by the server."
            cause = Cause("", "DisruptionBudget", told)
            raise _too_many(cause, 10)
        if allowed < 0:
            raise forbidden("poddisruptionbudgets", "policy", name, "pdb disruptions allowed is negative")
        disrupted = status.setdefault("disruptedPods", {})
        if len(disrupted) > _MAX_DISRUPTED:
            told = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
            raise forbidden("poddisruptionbudgets", "policy", name, told)
        if allowed == 0:
            told = (
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
                f"{status.get('currentHealthy', 0)} currently"
            )
            raise _too_many(Cause("", "DisruptionBudget", told), 0)
        status["disruptionsAllowed"] = allowed - 1
        if allowed == 1:
            _set_condition(status, self._clock)
        disrupted[pod] = format_time(self._clock.now())
        served = self._catalog.find("policy", "v1", "poddisruptionbudgets")
        if served is not None and not attrs.dry_run:
            served.table.put(record.key, budget)

    def _mark(self, attrs: Attributes, pod: Document, record: Record, options: Document) -> None:
        """Set the DisruptionTarget condition on the pod, which tells its owner why it was deleted."""
        preconditions = options.get("preconditions") or {}
        check_preconditions(attrs, record, preconditions)
        if attrs.dry_run:
            return
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c.get("type") != "DisruptionTarget"]
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastProbeTime": None,
                "lastTransitionTime": format_time(self._clock.now()),
            }
        )
        attrs.served.table.put(record.key, pod)


def _set_condition(status: Document, clock: Clock) -> None:
    conditions = status.setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c.get("type") != "DisruptionAllowed"]
    conditions.append(
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "lastTransitionTime": format_time(clock.now()),
        }
    )


def _too_many(cause: Cause, retry_after: int) -> ApiError:
    told = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(told, [cause], retry_after)
