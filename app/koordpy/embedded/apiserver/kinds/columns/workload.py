"""The columns of the kinds that own pods, and of what goes with them."""

from datetime import datetime
from typing import Any

from koordpy.api.meta import parse_time

from .column import AGE, NAME, Cell, Column, counted, labels, path, selector, since

Document = dict[str, Any]


def _wide(*template: str) -> tuple[Column, Column]:
    """The columns with the containers of a pod template."""
    containers: Cell = path(*template, "spec", "containers", default=())

    def each(field: str) -> Cell:
        return lambda document, now: ",".join(str(item.get(field, "")) for item in containers(document, now))

    return Column("Containers", each("name"), priority=1), Column("Images", each("image"), priority=1)


def _of_job() -> tuple[Column, ...]:
    count = path("status", "succeeded", default=0)

    def completions(document: Document, now: datetime) -> str:
        spec, done = document.get("spec", {}), count(document, now)
        if "completions" in spec:
            return f"{done}/{spec['completions']}"
        parallelism = spec.get("parallelism", 0)
        return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"

    def lasted(document: Document, now: datetime) -> str:
        status = document.get("status", {})
        if not status.get("startTime"):
            return ""
        end = parse_time(status["completionTime"]) if status.get("completionTime") else now
        return since(status["startTime"], end)

    def state(document: Document, now: datetime) -> str:
        conditions = document.get("status", {}).get("conditions") or ()
        true = {item.get("type") for item in conditions if item.get("status") == "True"}
        ended = next((one for one in ("Complete", "Failed") if one in true), "")
        if not ended and "deletionTimestamp" in document["metadata"]:
            return "Terminating"
        states = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
        return ended or next((one for one in states if one in true), "Running")

    return (
        NAME,
        Column("Status", state),
        Column("Completions", completions),
        Column("Duration", lasted),
        AGE,
        *_wide("spec", "template"),
        Column("Selector", selector("spec", "selector"), priority=1),
    )


def _of_cron_job() -> tuple[Column, ...]:
    last = path("status", "lastScheduleTime", default=None)

    def last_schedule(document: Document, now: datetime) -> str:
        found = last(document, now)
        return since(found, now) if found else "<none>"

    def suspended(document: Document, now: datetime) -> str:
        return str(bool(document.get("spec", {}).get("suspend")))

    return (
        NAME,
        Column("Schedule", path("spec", "schedule", default="")),
        Column("Timezone", path("spec", "timeZone")),
        Column("Suspend", suspended, "boolean"),
        Column("Active", counted("status", "active"), "integer"),
        Column("Last Schedule", last_schedule),
        AGE,
        *_wide("spec", "jobTemplate", "spec", "template"),
        Column("Selector", selector("spec", "jobTemplate", "spec", "selector"), priority=1),
    )


def _of_autoscaler() -> tuple[Column, ...]:
    def reference(document: Document, now: datetime) -> str:
        target = document.get("spec", {}).get("scaleTargetRef") or {}
        return f"{target.get('kind', '')}/{target.get('name', '')}"

    def targets(document: Document, now: datetime) -> str:
        specs = document.get("spec", {}).get("metrics") or []
        current = document.get("status", {}).get("currentMetrics") or []
        shown = [_target(spec, current[i] if i < len(current) else {}) for i, spec in enumerate(specs[:2])]
        more = f" + {len(specs) - 2} more..." if len(specs) > 2 else ""
        return f"{', '.join(shown)}{more}" or "<none>"

    return (
        NAME,
        Column("Reference", reference),
        Column("Targets", targets),
        Column("MinPods", path("spec", "minReplicas", default="<unset>")),
        Column("MaxPods", path("spec", "maxReplicas", default=0)),
        Column("Replicas", path("status", "currentReplicas", default=0)),
        AGE,
    )


def _target(spec: Document, current: Document) -> str:
    """One metric of an autoscaler: what it is now, and what it should be."""
    kind = spec.get("type", "")
    member = kind[:1].lower() + kind[1:]
    wanted = (spec.get(member) or {}).get("target") or {}
    found = (current.get(member) or {}).get("current") or {}
    about = (
        f"{(spec.get(member) or {}).get('name', '')}: " if kind in ("Resource", "ContainerResource") else ""
    )
    for name, unit in (("averageValue", ""), ("averageUtilization", "%"), ("value", "")):
        if name in wanted:
            now = f"{found[name]}{unit}" if name in found else "<unknown>"
            average = " (avg)" if name == "averageValue" and kind in ("External", "Object") else ""
            return f"{about}{now}/{wanted[name]}{unit}{average}"
    return f"{about}<unknown>/<auto>"


def _of_budget() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Min Available", path("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", path("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", path("status", "disruptionsAllowed", default=0), "integer"),
        AGE,
    )


def _of_revision() -> tuple[Column, ...]:
    def controller(document: Document, now: datetime) -> str:
        for owner in document["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                group = owner.get("apiVersion", "").rpartition("/")[0]
                kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
                return f"{kind.lower()}/{owner.get('name', '')}"
        return "<none>"

    return NAME, Column("Controller", controller), Column("Revision", path("revision", default=0)), AGE


def of_workload() -> dict[str, tuple[Column, ...]]:
    """The columns of the kinds that own pods."""

    def count(*names: str) -> Cell:
        return path(*names, default=0)

    def ready(document: Document, now: datetime) -> str:
        have = count("status", "readyReplicas")(document, now)
        return f"{have}/{path('spec', 'replicas', default=1)(document, now)}"

    wide = _wide("spec", "template")
    own_selector = Column("Selector", selector("spec", "selector"), priority=1)
    sets = (
        NAME,
        Column("Desired", count("spec", "replicas"), "integer"),
        Column("Current", count("status", "replicas"), "integer"),
        Column("Ready", count("status", "readyReplicas"), "integer"),
        AGE,
        *wide,
    )
    return {
        "Deployment": (
            NAME,
            Column("Ready", ready),
            Column("Up-to-date", count("status", "updatedReplicas"), "integer"),
            Column("Available", count("status", "availableReplicas"), "integer"),
            AGE,
            *wide,
            own_selector,
        ),
        "ReplicaSet": (*sets, own_selector),
        "ReplicationController": (*sets, Column("Selector", labels("spec", "selector"), priority=1)),
        "StatefulSet": (NAME, Column("Ready", ready), AGE, *wide),
        "DaemonSet": (
            NAME,
            Column("Desired", count("status", "desiredNumberScheduled"), "integer"),
            Column("Current", count("status", "currentNumberScheduled"), "integer"),
            Column("Ready", count("status", "numberReady"), "integer"),
            Column("Up-to-date", count("status", "updatedNumberScheduled"), "integer"),
            Column("Available", count("status", "numberAvailable"), "integer"),
            Column("Node Selector", labels("spec", "template", "spec", "nodeSelector")),
            AGE,
            *wide,
            own_selector,
        ),
        "ControllerRevision": _of_revision(),
        "CronJob": _of_cron_job(),
        "HorizontalPodAutoscaler": _of_autoscaler(),
        "Job": _of_job(),
        "PodDisruptionBudget": _of_budget(),
    }
