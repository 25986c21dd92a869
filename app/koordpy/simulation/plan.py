"""From a scenario to what happens in it: which nodes join, which pods are created, and when.

Everything random about a workload is drawn here, from the scenario's seed, so that the same pods come at the
same times whichever scheduler there is.
"""

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koordpy.api import config_document, quantity
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.resources import pod_request_vector
from koordpy.api.scheme import DecodeError, decode

from . import tables
from .scenario import Curve, NodeGroup, Pods, Scenario, Source, Step, Trace, Usage, Workload

Document = dict[str, Any]

_IMAGE = "simulated:1"

MEASURED = ("cpu", "memory")
"""The resources whose usage is simulated: milli-CPU and bytes."""

_DEFAULT_USAGE: Usage = {"cpu": Curve(factor=0.5), "memory": Curve(factor=0.6)}


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node and its time."""

    name: str
    document: Document
    joins: float
    leaves: float | None
    system: tuple[float, float]
    """What the node itself uses, as `MEASURED`."""
    capacity: tuple[float, float]


@dataclass(slots=True)
class PlannedPod:
    """A pod as it is created, how long it runs, and what it uses."""

    document: Document
    workload: str
    arrival: float
    duration: float | None
    curves: tuple[Curve, Curve]
    base: tuple[float, float]
    """What the curves go by, as `MEASURED`."""
    returns: bool = True
    """Whether it is created again after an eviction."""
    number: int = 0
    """Its place among all pods, which its noise depends on."""


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """A Deployment, the pod that it makes, and its replicas over time."""

    document: Document
    pod: PlannedPod
    scale: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object, when it is created, and when it is deleted."""

    document: Document
    at: float
    until: float | None


@dataclass(slots=True)
class Plan:
    """Everything that happens from outside, in the order of time."""

    nodes: list[PlannedNode] = field(default_factory=list)
    pods: list[PlannedPod] = field(default_factory=list)
    deployments: list[PlannedDeployment] = field(default_factory=list)
    objects: list[PlannedObject] = field(default_factory=list)


def of(scenario: Scenario, folder: Path) -> Plan:
    """Work a scenario out; the files that it names are in `folder`. Raises ConfigError, OSError."""
    plan = Plan()
    for index, group in enumerate(scenario.nodes):
        with _Under(f"nodes[{index}]"):
            plan.nodes += _table_of_nodes(group, folder) if group.table else _group(group)
    names = [node.name for node in plan.nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"nodes: there are several nodes {twice!r}")
    for index, objects in enumerate(scenario.objects):
        with _Under(f"objects[{index}]"):
            for document in read_source(objects, folder):
                plan.objects.append(PlannedObject(document, objects.at, objects.until))
    for index, workload in enumerate(scenario.workloads):
        rng = random.Random(f"{scenario.seed}/{workload.name}")
        usage = {**_DEFAULT_USAGE, **scenario.usage.default, **workload.usage}
        with _Under(f"workloads[{index}]"):
            if workload.pods is not None:
                plan.pods += _pods(workload, workload.pods, usage, rng)
            elif workload.trace is not None:
                plan.pods += _trace(workload, workload.trace, usage, folder)
            else:
                plan.deployments.append(_deployment(workload, usage, folder))
    plan.pods.sort(key=lambda pod: pod.arrival)
    for number, pod in enumerate(plan.pods):
        pod.number = number
    if scenario.duration is None:
        for pod in plan.pods:
            if pod.duration is None:
                raise ConfigError(
                    f"duration: expected one, because pods of workload {pod.workload!r} run for ever"
                )
    return plan


class _Under:
    """Puts a place in front of what is wrong there."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ConfigError):
            raise error.under(self._place) from None


# --- nodes -----------------------------------------------------------------------------------------


def _group(group: NodeGroup) -> Iterator[PlannedNode]:
    for index in range(group.count):
        name = str(group.name) if group.count == 1 else f"{group.name}-{index}"
        yield _node(group, name, group.allocatable, {}, group.joins + index * group.every)


def _table_of_nodes(group: NodeGroup, folder: Path) -> Iterator[PlannedNode]:
    columns = group.columns
    for index, (place, row) in enumerate(tables.rows(folder / str(group.table))):
        amounts = {
            name: found
            for name, expression in columns.amounts.items()
            if (found := tables.amount(row, expression, place)) != "0"
        }
        labels = {
            label: found
            for label, column in columns.labels.items()
            if (found := tables.cell(row, column, place))
        }
        name = tables.cell(row, columns.name, place)
        yield _node(group, name, {**group.allocatable, **amounts}, labels, group.joins + index * group.every)


def _node(
    group: NodeGroup, name: str, amounts: Mapping[str, Any], labels: Mapping[str, str], joins: float
) -> PlannedNode:
    allocatable = {"pods": "110", **{resource: str(amount) for resource, amount in amounts.items()}}
    metadata: Document = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, **group.labels, **labels},
        **({"annotations": dict(group.annotations)} if group.annotations else {}),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": [dict(taint) for taint in group.taints]} if group.taints else {},
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    system = {**dict.fromkeys(MEASURED, 0.0), **_measured(group.system_usage)}
    capacity = {**dict.fromkeys(MEASURED, 0.0), **_measured(allocatable)}
    return PlannedNode(
        name,
        document,
        joins,
        group.leaves,
        (system["cpu"], system["memory"]),
        (capacity["cpu"], capacity["memory"]),
    )


def _measured(amounts: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for resource in MEASURED:
        if resource in amounts:
            found[resource] = float(quantity.resource_value(resource, amounts[resource]))
    return found


# --- workloads -------------------------------------------------------------------------------------


def _pods(workload: Workload, pods: Pods, usage: Usage, rng: random.Random) -> Iterator[PlannedPod]:
    template = pods.template or _requesting(pods.requests)
    at = pods.arrivals.at
    for index in range(pods.count):
        document = _pod(template, workload.namespace, f"{workload.name}-{index}")
        duration = pods.duration
        if duration is not None and pods.spread:
            duration *= 1 + pods.spread * (2 * rng.random() - 1)
        yield _planned(document, workload, at, duration, usage)
        every = pods.arrivals.every
        at += rng.expovariate(1 / every) if pods.arrivals.random and every else every


def _trace(workload: Workload, trace: Trace, usage: Usage, folder: Path) -> Iterator[PlannedPod]:
    for index, (place, row) in enumerate(tables.rows(folder / trace.file)):
        if trace.limit is not None and index >= trace.limit:
            return
        if isinstance(row.get("pod"), dict):
            yield _recorded(workload, row, place, usage)
            continue
        columns = trace.columns
        namespace = trace.namespace
        if columns.namespace is not None:
            namespace = tables.cell(row, columns.namespace, place) or namespace
        document = _pod(trace.template, namespace, tables.cell(row, columns.name, place))
        requests = {
            name: found
            for name, expression in columns.requests.items()
            if (found := tables.amount(row, expression, place)) != "0"
        }
        _request(document, requests)
        for label, column in columns.labels.items():
            if value := tables.cell(row, column, place):
                document["metadata"].setdefault("labels", {})[label] = value
        _require(document, columns.node_affinity, row, place)
        arrival = tables.seconds(row, columns.arrival, place)
        yield _planned(document, workload, arrival, _duration(trace, row, place), usage)


def _duration(trace: Trace, row: tables.Row, place: str) -> float | None:
    columns = trace.columns
    if columns.end:
        ends, *begins = columns.end
        begin = next((column for column in begins if tables.cell(row, column, place)), None)
        if begin is None:
            raise ConfigError(f"{place}: none of the columns {', '.join(begins)} says when the pod began")
        duration = tables.seconds(row, ends, place) - tables.seconds(row, begin, place)
        if duration < 0:
            raise ConfigError(f"{place}: {ends}: the pod ends before it begins")
        return max(duration, 1.0)
    if columns.duration is None or not tables.cell(row, columns.duration, place):
        return None
    return max(tables.seconds(row, columns.duration, place), 1.0)


def _recorded(workload: Workload, row: tables.Row, place: str, usage: Usage) -> PlannedPod:
    """Return a pod as `koordpy record` wrote it: whole, with its usage in steps."""
    given = row["pod"]
    document = copy.deepcopy(given)
    document |= {"apiVersion": "v1", "kind": "Pod"}
    if not (isinstance(document.get("metadata"), dict) and document["metadata"].get("name")):
        raise ConfigError(f"{place}: pod.metadata.name: expected a name")
    document["metadata"].setdefault("namespace", workload.namespace)
    curves = dict(usage)
    units = {"cpu": "1m", "memory": "1"}
    for resource, steps in (row.get("usage") or {}).items():
        try:
            read = tuple(Step(at=float(at), value=float(value)) for at, value in steps)
            if resource in units and read:
                curves[resource] = Curve(amount=units[resource], shape="steps", steps=read)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{place}: usage.{resource}: expected pairs of time and amount: {error}"
            ) from None
    duration = None if row.get("duration") is None else max(tables.seconds(row, "duration", place), 1.0)
    return _planned(document, workload, tables.seconds(row, "arrival", place), duration, curves)


def _deployment(workload: Workload, usage: Usage, folder: Path) -> PlannedDeployment:
    deployment = workload.deployment
    assert deployment is not None
    documents = [d for d in read_source(deployment.source, folder) if d.get("kind") == "Deployment"]
    if len(documents) != 1:
        raise ConfigError(f"deployment.source: found {len(documents)} Deployments, expected one")
    document = copy.deepcopy(documents[0])
    metadata, spec = document.setdefault("metadata", {}), document.get("spec") or {}
    metadata.setdefault("name", workload.name)
    namespace = metadata.setdefault("namespace", workload.namespace)
    template = spec.get("template")
    if not isinstance(template, dict):
        raise ConfigError("deployment.source: spec.template: expected a pod template")
    for container in (template.get("spec") or {}).get("containers") or ():
        container.setdefault("image", _IMAGE)
    pod = _planned(_pod(template, namespace, metadata["name"]), workload, deployment.at, None, usage)
    scale = [(deployment.at, int(spec.get("replicas", 1)))]
    scale += [(step.at, step.replicas) for step in deployment.scale]
    return PlannedDeployment(document, pod, tuple(sorted(scale, key=lambda step: step[0])))


def _planned(
    document: Document, workload: Workload, arrival: float, duration: float | None, usage: Usage
) -> PlannedPod:
    try:
        requests = pod_request_vector(decode(Pod, document))
    except (DecodeError, quantity.QuantityError) as error:
        raise ConfigError(f"pod {document['metadata'].get('name')!r}: {error}") from None
    curves = tuple(usage[resource] for resource in ("cpu", "memory"))
    base = []
    for resource, curve in zip(MEASURED, curves, strict=True):
        if curve.amount is not None:
            base.append(float(quantity.resource_value(resource, curve.amount)))
        else:
            base.append(requests.get(resource, 0) * (1.0 if curve.factor is None else curve.factor))
    return PlannedPod(
        document,
        workload.name,
        arrival,
        duration,
        (curves[0], curves[1]),
        (base[0], base[1]),
        workload.when_evicted == "restart",
    )


def _pod(template: Document, namespace: str, name: str) -> Document:
    metadata = copy.deepcopy(template.get("metadata") or {})
    spec = copy.deepcopy(template.get("spec") or {})
    for container in spec.get("containers") or ():
        container.setdefault("image", _IMAGE)
    metadata |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _requesting(requests: Mapping[str, Any]) -> Document:
    amounts = {name: str(amount) for name, amount in requests.items()}
    return {"spec": {"containers": [_container(amounts)]}}


def _container(amounts: Mapping[str, str]) -> Document:
    limits = {name: amount for name, amount in amounts.items() if "/" in name}  # cannot be overcommitted
    resources = {"requests": dict(amounts), **({"limits": limits} if limits else {})}
    return {"name": "main", "image": _IMAGE, "resources": resources}


def _request(document: Document, amounts: Mapping[str, str]) -> None:
    """Let the first container (a template's, or one that is made) request the amounts of a row."""
    container = _container(amounts)
    containers = document["spec"].setdefault("containers", [])
    if containers:
        containers[0]["resources"] = container["resources"]
    else:
        containers.append(container)


def _require(document: Document, columns: Mapping[str, str], row: tables.Row, place: str) -> None:
    """Allow only nodes whose labels have one of the values that a cell lists."""
    expressions = [
        {"key": label, "operator": "In", "values": text.split("|")}
        for label, column in columns.items()
        if (text := tables.cell(row, column, place))
    ]
    if not expressions:
        return
    node = document["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = node.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    for term in required["nodeSelectorTerms"]:
        term.setdefault("matchExpressions", []).extend(expressions)


# --- documents -------------------------------------------------------------------------------------


def read_source(source: Source, folder: Path) -> list[Document]:
    """Return the objects of a source; the items of a List count each. Raises ConfigError, OSError."""
    if source.manifest is not None:
        return [source.manifest]
    path = folder / str(source.file)
    found: list[Document] = []
    try:
        for document in config_document.load_all(path.read_text(encoding="utf-8")):
            if document is None:
                continue
            if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
                raise ConfigError(f"got {str(document)[:60]!r}, expected objects with a kind")
            items = document.get("items")
            found += items if document["kind"].endswith("List") and isinstance(items, list) else [document]
    except ConfigError as error:
        raise error.under(path) from None
    return found
