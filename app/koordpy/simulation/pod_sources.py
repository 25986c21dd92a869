"""The pods of a scenario's workloads: equal ones, those of a Deployment, those of a trace."""

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from koordpy.api import quantity
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.gang.membership import ANNOTATION_GANG_NAME
from koordpy.api.gang.settings import (
    ANNOTATION_GROUPS,
    ANNOTATION_MATCH_POLICY,
    ANNOTATION_MIN_AVAILABLE,
    ANNOTATION_MODE,
    ANNOTATION_TOTAL_NUMBER,
    ANNOTATION_WAITING_TIME,
)
from koordpy.api.resources import pod_request_vector
from koordpy.api.scheme import DecodeError, decode
from koordpy.embedded.kubelet.curves import Curve, Step
from koordpy.embedded.kubelet.usage import MEASURED

from . import gangs, tables
from .planned import PlannedDeployment, PlannedPod
from .scenario import Gang, Pods, Trace, Usage, Workload
from .sources import read_source

Document = dict[str, Any]

Groups = Mapping[str, Sequence[Workload]]
"""The workloads whose gangs form groups, by the names of these."""

_IMAGE = "simulated:1"


def equal(
    workload: Workload, pods: Pods, usage: Usage, rng: random.Random, groups: Groups
) -> Iterator[PlannedPod]:
    """Yield equal pods, with their times drawn by `rng`. `groups` has the workloads of groups of gangs."""
    template = pods.template or _requesting(pods.requests)
    at = pods.arrivals.at
    size = 1 if pods.gang is None else pods.gang.size
    for first in range(0, pods.count, size):
        duration = pods.duration
        if duration is not None and pods.spread:
            duration *= 1 + pods.spread * (2 * rng.random() - 1)
        for index in range(first, first + size):
            document = _pod(template, workload.namespace, f"{workload.name}-{index}")
            if pods.gang is not None:
                _join(document, workload, pods.gang, index // size, groups)
            later = 0.0 if pods.gang is None else (index - first) * pods.gang.every
            yield _planned(document, workload, at + later, duration, usage)
        every = pods.arrivals.every
        at += rng.expovariate(1 / every) if pods.arrivals.random and every else every


def _join(document: Document, workload: Workload, gang: Gang, number: int, groups: Groups) -> None:
    """Make a pod a member of the gang of that number."""
    told = {
        ANNOTATION_GANG_NAME: f"{workload.name}-{number}",
        ANNOTATION_MIN_AVAILABLE: str(gang.size if gang.min is None else gang.min),
        ANNOTATION_TOTAL_NUMBER: str(gang.size),
        ANNOTATION_MODE: gang.mode,
    }
    if gang.match_policy is not None:
        told[ANNOTATION_MATCH_POLICY] = gang.match_policy
    if gang.waiting_time is not None:
        told[ANNOTATION_WAITING_TIME] = f"{gang.waiting_time:g}s"
    if gang.group is not None:
        others = [f"{each.namespace}/{each.name}-{number}" for each in groups[gang.group]]
        told[ANNOTATION_GROUPS] = json.dumps(others)
    document["metadata"]["annotations"] = {**(document["metadata"].get("annotations") or {}), **told}


def of_trace(workload: Workload, trace: Trace, usage: Usage, folder: Path) -> Iterator[PlannedPod]:
    """Yield the pods of a table. Raises ConfigError naming the row, OSError."""
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
                if read[0].at > 0:  # before its first report it used about as much
                    read = (Step(at=0.0, value=read[0].value), *read)
                curves[resource] = Curve(amount=units[resource], shape="steps", steps=read)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{place}: usage.{resource}: expected pairs of time and amount: {error}"
            ) from None
    duration = None if row.get("duration") is None else max(tables.seconds(row, "duration", place), 1.0)
    return _planned(document, workload, tables.seconds(row, "arrival", place), duration, curves)


def of_deployment(workload: Workload, usage: Usage, folder: Path) -> PlannedDeployment:
    """Return the plan of a Deployment. Raises ConfigError, OSError."""
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
        pod = decode(Pod, document)
        requests = pod_request_vector(pod)
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
        *gangs.membership(pod),
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
