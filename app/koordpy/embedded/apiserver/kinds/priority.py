"""Priority classes, and the admission that turns a pod's class into its priority.

Source: Kubernetes, `plugin/pkg/admission/priority`, `pkg/apis/scheduling`.
"""

from collections.abc import Iterable
from typing import Any

from koordpy.api.field_cause import Cause, forbidden_field, invalid_value

from ..errors import ApiError, forbidden
from ..storage import Table
from .strategy import Strategy

Document = dict[str, Any]

SYSTEM_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, "
        "but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)
_HIGHEST_USER = 1_000_000_000


class PriorityClassStrategy(Strategy):
    """The rules of priority classes: only the description and labels ever change."""

    counts_generation = True

    def default(self, document: Document) -> None:
        """Pods of a class preempt lower ones by default."""
        document.setdefault("value", 0)
        if not document.get("globalDefault"):
            document.pop("globalDefault", None)
        document.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, document: Document) -> Iterable[Cause]:
        """Values above a billion, and names that begin with system-, are reserved."""
        name, value = document["metadata"].get("name", ""), document["value"]
        known = {known: amount for known, amount, _ in SYSTEM_CLASSES}
        if name.startswith("system-"):
            if known.get(name) != value:
                told = "priority class names with 'system-' prefix are reserved for system use only"
                yield forbidden_field("metadata.name", told)
        elif value > _HIGHEST_USER:
            told = f"maximum allowed value of a user defined priority is {_HIGHEST_USER}"
            yield forbidden_field("value", told)

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """Value and preemption policy stay."""
        if new["value"] != old["value"]:
            yield forbidden_field("value", "may not be changed in an update.")
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield invalid_value("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable")


def check_global_default(classes: Table, document: Document) -> None:
    """Reject a second global default class."""
    if not document.get("globalDefault"):
        return
    name = document["metadata"].get("name", "")
    for record in classes:
        other = record.document()
        if other.get("globalDefault") and record.key != name:
            raise forbidden(
                "priorityclasses",
                "scheduling.k8s.io",
                name,
                f"PriorityClass {record.key} is already marked as default. Only one default can exist",
            )


def admit(classes: Table, pod: Document) -> None:
    """Set a pod's priority and preemption policy from its class; raise ApiError (403)."""
    spec, metadata = pod["spec"], pod["metadata"]
    name = spec.get("priorityClassName", "")
    value, policy = 0, "PreemptLowerPriority"
    if name:
        record = classes.get(name)
        if record is None:
            raise _refused(metadata, f"no PriorityClass with name {name} was found")
        found = record.document()
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    else:
        for record in classes:
            if b'"globalDefault":true' in record.raw:
                found = record.document()
                if found.get("globalDefault"):
                    spec["priorityClassName"] = record.key
                    value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    given = spec.get("priority")
    if given is not None and given != value:
        raise _refused(
            metadata,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    asked = spec.get("preemptionPolicy")
    if asked is not None and asked != policy:
        raise _refused(
            metadata,
            f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _refused(metadata: Document, told: str) -> ApiError:
    return forbidden("pods", "", metadata.get("name", ""), told)
